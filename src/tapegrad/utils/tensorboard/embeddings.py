"""The files in which TensorBoard's projector looks for points in many dimensions."""

from __future__ import annotations

import math
import pathlib
from typing import Any

from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import (
    EmbeddingInfo,
    ProjectorConfig,
)

from .summary import in_bytes, make_np, side_by_side


def lines(rows: Any) -> str:
    return "".join("\t".join(str(value) for value in row) + "\n" for row in rows)


def escaped(tag: str) -> str:
    """A tag as the name of a folder."""
    for letter in "%/\\":
        tag = tag.replace(letter, f"%{ord(letter):02x}")
    return tag


def write_embedding(
    folder: str,
    place: str,
    tag: str,
    mat: Any,
    metadata: Any = None,
    label_img: Any = None,
    metadata_header: Any = None,
) -> Any:
    """Write the points, their labels and their pictures; what the projector is told of them."""
    root = pathlib.Path(folder)
    here = f"{place}/{escaped(tag)}"
    where = root / here
    if where.exists():
        print("warning: Embedding dir exists, did you set global_step for add_embedding()?")
    where.mkdir(parents=True, exist_ok=True)
    info = EmbeddingInfo(tensor_name=f"{tag}:{place}", tensor_path=f"{here}/tensors.tsv")
    array = make_np(mat)
    if metadata is not None:
        if len(array) != len(metadata):
            raise AssertionError("#labels should equal with #data points")
        rows = [[each] for each in metadata] if not metadata_header else metadata
        head = [metadata_header] if metadata_header else []
        text = lines([*head, *rows])
        (where / "metadata.tsv").write_text(text, encoding="utf-8")
        info.metadata_path = f"{here}/metadata.tsv"
    if label_img is not None:
        from PIL import Image

        images = make_np(label_img)
        if len(array) != len(images):
            raise AssertionError("#images should equal with #data points")
        if images.shape[2] != images.shape[3]:
            raise AssertionError("Image should be square, see tensorflow/tensorboard#670")
        columns = math.ceil(math.sqrt(len(images)))
        sheet = in_bytes(side_by_side(images, columns).transpose(1, 2, 0))
        side = columns * images.shape[2]
        square = Image.new("RGB", (side, side))
        square.paste(Image.fromarray(sheet), (0, 0))
        square.save(where / "sprite.png", format="PNG")
        info.sprite.image_path = f"{here}/sprite.png"
        info.sprite.single_image_dim.extend([images.shape[3], images.shape[2]])
    if array.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    (where / "tensors.tsv").write_text(lines(array.tolist()), encoding="utf-8")
    return info


def write_config(folder: str, infos: list[Any]) -> None:
    """Tell the projector of all embeddings of a run."""
    text = text_format.MessageToString(ProjectorConfig(embeddings=infos))
    (pathlib.Path(folder) / "projector_config.pbtxt").write_text(text, encoding="utf-8")
