"""One site in two languages: Chinese pages live in zh/ under the names of the English ones."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Set
from typing import Any

from pages import only_english
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment.adapters.toctree import TocTree
from sphinx.search import languages
from sphinx.search.en import SearchEnglish

# What the theme says around a Chinese page.
CHINESE = {
    "Next": "下一页",
    "Previous": "上一页",
    "On this page": "本页内容",
    "Contents": "本页内容",
    "Back to top": "回到顶部",
    "Search": "搜索",
    "Home": "首页",
    "Toggle Light / Dark / Auto color theme": "切换浅色、深色、自动",
    "Toggle site navigation sidebar": "打开或收起导航",
    "Toggle table of contents sidebar": "打开或收起本页目录",
    "Hide navigation sidebar": "收起导航",
    "Hide table of contents sidebar": "收起本页目录",
    "Skip to content": "跳到正文",
    "View this page": "查看源码",
}
# What the menu calls the pages that are in English only.
MENU = {
    "Learn": "学习（英文）",
    "Start in five minutes": "五分钟上手",
    "Autograd from the ground up": "从零理解自动求导",
    "microgpt, step by step": "一步一步写一个 microgpt",
    "How the engine works": "引擎怎样工作",
    "Tools that say why": "说明原因的工具",
    "The doctor": "训练循环的医生",
    "Comparing two runs": "比较两次运行",
    "Use": "使用（英文）",
    "Moving from PyTorch": "从 PyTorch 迁移",
    "Tests without PyTorch": "不装 PyTorch 跑测试",
    "Models, optimizers, data": "模型、优化器、数据",
    "Random numbers": "随机数",
    "GPUs": "GPU",
    "Performance": "性能",
    "Compiled training steps": "编译训练步骤",
    "A step as a C file": "训练步骤导出为 C 文件",
    "Higher derivatives": "高阶导数",
    "Sparse derivatives": "稀疏导数",
    "Solutions of equations": "方程的解",
    "Samples and curvature": "样本与曲率",
    "Distributed training": "分布式训练",
    "Packages made for PyTorch": "为 PyTorch 写的包",
    "Saving, loading, exchange": "保存、读取、交换",
    "Export to ONNX": "导出到 ONNX",
    "Benchmarks": "基准测试",
    "Survey of every function": "逐个函数的测速",
    "Look up": "查阅（英文）",
    "Reference": "参考手册",
    "Errors and what they mean": "报错及其含义",
    "Operators": "运算一览",
    "Parity with PyTorch": "与 PyTorch 的一致程度",
    "Evidence": "证据",
    "What you can rely on": "可以指望什么",
    "Notes": "内部笔记",
    "How the project is made and decided": "项目如何开发和决策",
}
ENTRY = re.compile(r">([^<>]+)<")
# A line of Chinese that goes on: the line break is no space.
BROKEN = re.compile(r"(?<=[\u3001-\u303f\u4e00-\u9fff\uff00-\uffef])\n[ ]*(?=[\u4e00-\u9fff])")
HAN = re.compile(r"[\u4e00-\u9fff]+")
LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)")


def pairs(run: str) -> list[str]:
    """Chinese is written without spaces: a run of characters is found by its pairs."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


class BothLanguages(SearchEnglish):
    """Search that knows English words and pairs of Chinese characters."""

    # In the browser, what is typed is cut into pairs that follow each other.
    js_splitter_code = r"""
var splitQuery = (query) => query
  .split(/[^\p{Letter}\p{Number}_]+/u)
  .flatMap((word) => word.split(/([\u4e00-\u9fff]+)/))
  .filter((word) => word)
  .flatMap((word) => /[\u4e00-\u9fff]/.test(word) && word.length > 2
    ? [...word.matchAll(/../gu)].map((pair) => pair[0]).concat(word.slice(-2)) : [word]);
"""

    def split(self, input: str) -> list[str]:
        found = []
        for word in super().split(input):
            found += [w for w in HAN.split(word) if w]
            for run in HAN.findall(word):
                found += pairs(run)
        return found

    def word_filter(self, word: str) -> bool:
        return bool(HAN.match(word)) or super().word_filter(word)


def counterpart(name: str, known: Set[str]) -> str | None:
    """The same page in the other language, if there is one."""
    other = name.removeprefix("zh/") if name.startswith("zh/") else f"zh/{name}"
    return other if other in known else None


def add_language(app: Sphinx, name: str, template: str, context: dict[str, Any], tree: Any) -> None:
    chinese = name.startswith("zh/")
    known = set(app.env.all_docs)
    other = counterpart(name, known) or ("index" if chinese else "zh/index")
    context["other_page"] = app.builder.get_relative_uri(name, other)
    context["other_language"] = "English" if chinese else "中文"
    if chinese:
        context["language"] = "zh-CN"
        context["_"] = lambda text: CHINESE.get(text, text)
        for side in ("prev", "next"):  # the page before the first Chinese one is English
            if context.get(side):
                title = context[side]["title"]
                context[side] = {**context[side], "title": MENU.get(title, title)}
        # The menu of the Chinese pages first, then what there is in English.
        menu = context["toctree"]
        context["toctree"] = lambda **how: (
            chinese_menu(app, name, how) + translated(only_english(menu(**how), known))
        )
        if name == "zh/index":
            context["title"] = "中文首页"  # of the window: the page itself begins with the name


def translated(menu: str) -> str:
    """The menu of the English pages, with Chinese names."""
    return ENTRY.sub(lambda found: f">{MENU.get(found[1], found[1])}<", menu)


def chinese_menu(app: Sphinx, name: str, how: dict[str, Any]) -> str:
    """The tree of pages below zh/index, as the theme wants it."""
    made = ""
    for node in app.env.get_doctree("zh/index").findall(addnodes.toctree):
        tree = TocTree(app.env).resolve(
            name, app.builder, node, prune=False, maxdepth=-1, titles_only=True,
            collapse=bool(how.get("collapse")), includehidden=True,
        )  # fmt: skip
        if tree is not None:
            made += app.builder.render_partial(tree)["fragment"]
    return made


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Links to files outside docs/ lead to the repository; Chinese lines are joined."""
    here = pathlib.Path(app.srcdir, name).parent
    docs = pathlib.Path(app.srcdir).resolve()

    def link(found: re.Match[str]) -> str:
        path = (here / found[2]).resolve()
        if path.is_relative_to(docs):
            return found[0]
        kind = "tree" if path.is_dir() else "blob"
        address = f"{app.config.repository}/{kind}/main/{path.relative_to(docs.parent).as_posix()}"
        return found[1] + address

    source[0] = LINK.sub(link, source[0])
    if name.startswith("zh/"):
        source[0] = BROKEN.sub("", source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    languages["en"] = BothLanguages
    app.add_config_value("repository", "", "env")
    app.connect("html-page-context", add_language, priority=400)  # before the theme's own
    app.connect("source-read", read)
    return {"version": "1", "parallel_read_safe": True}
