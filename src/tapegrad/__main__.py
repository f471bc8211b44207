"""The command ``tapegrad``, also ``python -m tapegrad``: demo, run, torchrun, check, doctor, graph,
record, compare, replay-op, fingerprint, export-c, explain, info."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

RUN_USAGE = "tapegrad run [-h] (SCRIPT | -m MODULE | -) [ARG ...]"
COMMANDS = (
    *("demo", "run", "torchrun", "check", "doctor", "graph", "record", "compare", "replay-op"),
    *("fingerprint", "export-c", "explain", "info"),
)
PROGRAMS = ("run", "doctor", "graph", "record", "fingerprint")  # they run a program, and need one


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tapegrad",
        description="PyTorch's autograd and the library around it, in Python, on NumPy.",
        epilog="`tapegrad COMMAND --help` says more, with an example. "
        "`python -m tapegrad` is the same command.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser(
        "demo",
        help="a tour in the terminal, under 20 seconds",
        description="Build a graph, explain a classic error, look at a training loop, train a "
        "small classifier, write a page.",
        epilog="Example: tapegrad demo. NO_COLOR=1 switches colours off.",
    )
    _add_run(commands)
    commands.add_parser(
        "torchrun",
        add_help=False,
        help="the same as several processes, on MPI, with the options of PyTorch's torchrun",
    )
    _add_check(commands)
    _add_doctor(commands)
    _add_graph(commands)
    _add_runs(commands)
    _add_fingerprint(commands)
    _add_export_c(commands)
    explain = commands.add_parser(
        "explain",
        help="the page about an error or a finding of the doctor, by its id",
        description="Print what an error or a finding of the doctor means, and the cure.",
        epilog="Examples: tapegrad explain E01; tapegrad explain one of the variables needed. "
        "Without arguments: the list of all.",
    )
    explain.add_argument(
        "asked", nargs="*", metavar="ID or WORDS", help="E01, d2 ..., or words of a message"
    )
    commands.add_parser(
        "info",
        help="which build is running, and on what",
        description="Print tapegrad.__config__.show(), for bug reports.",
        epilog="Example: tapegrad info",
    )
    return parser


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        usage=RUN_USAGE,
        help="run an unmodified PyTorch script or module, with torch answered by tapegrad",
        description="Run a program as python would, with `import torch` and all of torch's "
        "submodules answered by tapegrad. Everything after SCRIPT or MODULE is the program's own.",
        epilog="Examples: tapegrad run train.py --epochs 3; tapegrad run -m pytest tests -q; "
        "tapegrad run - < script.py. "
        "Processes that multiprocessing starts get the alias too; programs started with "
        "subprocess need `python -m tapegrad run` themselves.",
    )
    _add_program(run, "a file, a folder, or - for stdin")


def _add_program(command: argparse.ArgumentParser, script: str) -> None:
    """The program that a command runs, as a script or a module."""
    command.add_argument("-m", dest="module", metavar="MODULE", help="run a module, like python -m")
    command.add_argument("script", nargs="?", metavar="SCRIPT", help=script)
    command.add_argument("args", nargs="*", metavar="ARG", help="arguments of the program")


def _add_check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    check = commands.add_parser(
        "check",
        help="list the torch names that a program uses and tapegrad does not have",
        description="Read Python files without running them and list the torch names they use "
        "that tapegrad lacks, with file and line. Methods of tensors and modules (x.foo()) cannot "
        "be known without running the program and are not checked. Names that the program itself "
        "can do without (try/except ImportError or AttributeError, hasattr) are listed apart, so "
        "are names that change nothing here, and packages that need PyTorch's own binary.",
        epilog="Example: tapegrad check train.py src/. Exit status: 0 nothing is missing, 1 "
        "something is, 2 a file could not be read.",
    )
    check.add_argument(
        "paths", nargs="+", metavar="PATH", help="a Python file, a folder, or an installed package"
    )
    check.add_argument("--json", action="store_true", help="print the report as JSON")


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="run a training script and say what is wrong with its loop",
        description="Run a program like `run`, watch how it trains, and print what was found at "
        "the end (to stderr; also when the program fails). Each finding has an id, a line and a "
        "cure; `tapegrad explain D01` says more of one.",
        epilog="Example: tapegrad doctor train.py --epochs 1. "
        "The exit status is the program's own.",
    )
    doctor.add_argument("--json", metavar="FILE", help="write the report as JSON, too")
    doctor.add_argument("--strict", action="store_true", help="exit with 1 if there are findings")
    _add_program(doctor, "a file, or - for stdin")


def _add_graph(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    graph = commands.add_parser(
        "graph",
        usage="tapegrad graph [-h] (SCRIPT | -m MODULE) [-o FILE] [ARG ...]",
        help="run a script and draw the graph of its last backward pass",
        description="Run a program like `run` and write the graph of its last backward pass, or "
        "of its last result where none ran. If the program fails, the graph shows what there was, "
        "with the place of the failure marked.",
        epilog="Example: tapegrad graph train.py -o graph.svg. The exit status is the program's "
        "own, or 1 if there was nothing to draw.",
    )
    graph.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="what to write: .html .svg .dot .json or .txt (default: SCRIPT.graph.html)",
    )
    _add_program(graph, "a file or a folder")


def _add_runs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The commands about recorded runs say themselves what they take."""
    from tapegrad.diagnose._runs.cli_help import add_commands

    add_commands(commands)


def _add_fingerprint(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = commands.add_parser(
        "fingerprint",
        usage="tapegrad fingerprint [-h] (SCRIPT | -m MODULE) [ARG ...]",
        help="run a training script and print a hash of the parameters after each step",
        description="Run a program like `run`, print a hash of the bits of all parameters after "
        "each step of an optimizer, and one of all these at the end: two runs with equal hashes "
        "did the same to the bit.",
        epilog="Example: tapegrad fingerprint train.py. The exit status is the program's own.",
    )
    _add_program(command, "a file, a folder, or - for stdin")


def _add_export_c(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    export = commands.add_parser(
        "export-c",
        help="a training step or a model of a script as one file in C11",
        description="Run a script as a module (not as __main__), record one of its functions or "
        "modules on example arguments, and print it as a C file that allocates nothing.",
        epilog="Example: tapegrad export-c train.py --step step --args example_args -o model.c",
    )
    export.add_argument("script", metavar="SCRIPT", help="a Python file")
    export.add_argument("--step", default="step", metavar="NAME", help="what to export (step)")
    export.add_argument(
        "--args",
        default="example_args",
        metavar="NAME",
        help="the tuple of its arguments (example_args)",
    )
    export.add_argument("-o", "--output", default="model.c", metavar="FILE", help="(model.c)")
    export.add_argument("--weights", metavar="FILE", help="write the weights into a file apart")


def _run(args: Sequence[str]) -> int:
    from tapegrad.compat import run

    # Not argparse: what follows the script is the program's, even when it looks like an option.
    if args[0] == "-m":
        if len(args) < 2:
            print(f"usage: {RUN_USAGE}\nArgument expected for the -m option", file=sys.stderr)
            return 2
        run.run_module(args[1], args[2:])
    else:
        run.run_script(args[0], args[1:])
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit status."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args and args[0] in PROGRAMS:
        return _main(args)  # how it ends is the program's own affair
    try:
        status = _main(args)
        sys.stdout.flush()  # a closed pipe shows here, not when Python ends
        return status
    except BrokenPipeError:
        # Whoever read the output has had enough (`tapegrad check . | head`): that is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 128 + signal.SIGINT


def _main(args: list[str]) -> int:
    if len(args) > 1 and args[0] == "run" and (args[1] in ("-m", "-") or args[1][:1] != "-"):
        return _run(args[1:])
    if len(args) > 1 and args[0] == "doctor" and args[1] not in ("-h", "--help"):
        from tapegrad.diagnose._doctor import cli as doctor_cli

        return doctor_cli.main(args[1:])
    if len(args) > 1 and args[0] == "graph" and args[1] not in ("-h", "--help"):
        from tapegrad.diagnose._graph import cli as graph_cli

        return graph_cli.main(args[1:])
    if len(args) > 1 and args[0] == "record" and args[1] not in ("-h", "--help"):
        from tapegrad.diagnose._runs import cli as runs_cli

        return runs_cli.record_main(args[1:])
    if len(args) > 1 and args[0] == "fingerprint" and args[1] not in ("-h", "--help"):
        from tapegrad.diagnose import _fingerprint

        return _fingerprint.main(args[1:])
    if args[:1] == ["torchrun"]:
        from tapegrad.distributed import run as launcher

        return launcher.main(args[1:])
    parser = _parser()
    if len(args) == 1 and args[0] in PROGRAMS:
        parser.parse_args([*args, "--help"])
    if args and args[0][:1] != "-" and args[0] not in COMMANDS:
        print(f"tapegrad: unknown command {args[0]!r}\n", file=sys.stderr)
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(args)
    if options.version:
        from tapegrad import __version__

        theirs, _, own = __version__.partition("+tapegrad.")
        print(f"tapegrad {own} (PyTorch {theirs})")
        return 0
    if options.command == "explain":
        from tapegrad.diagnose import error_pages

        return error_pages.show(" ".join(options.asked) or None)
    if options.command == "check":
        from tapegrad.compat import check

        return check.main(options.paths, as_json=options.json)
    if options.command == "compare":
        from tapegrad.diagnose._runs import cli as runs_cli

        return runs_cli.compare_main(options)
    if options.command == "replay-op":
        from tapegrad.diagnose._runs import cli as runs_cli

        return runs_cli.replay_main(options.file)
    if options.command == "export-c":
        from tapegrad.compat import alias
        from tapegrad.export.to_c import cli as export_cli

        alias.install()  # the script may say `import torch`
        return export_cli.main(options)
    if options.command == "demo":
        from tapegrad.diagnose import demo

        return demo.main()
    if options.command == "info":
        from tapegrad import __config__

        print(__config__.show())
        return 0
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
