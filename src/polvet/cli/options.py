"""The options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polvet.cli.limits import net

Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout.")]
Seed = Annotated[int, typer.Option("--seed", help="The seed of all chance.", min=0, max=2**63 - 1)]
TimeLimit = Annotated[
    float | None, typer.Option("--time-limit", help="Stop after this many seconds.", min=0.0, callback=net.span)
]
MemoryLimit = Annotated[int | None, typer.Option("--memory-limit", help="Stop above this many megabytes.", min=1)]
Workers = Annotated[
    str, typer.Option("--workers", help="Threads (a number, or all), or a Ray cluster: ray:auto, ray:ADDRESS.")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Write the result to this file.")]
LogJson = Annotated[
    Path | None, typer.Option("--log-json", help="Write progress to this file, one JSON object per line.")
]
PolicyFile = Annotated[
    Path,
    typer.Argument(
        metavar="POLICY",
        help="ONNX, XGBoost, LightGBM, skops, SB3 zip, .nnet, table/1, .npy, ..., or file.py:function.",
    ),
]
PolicyOption = Annotated[Path | None, typer.Option("--policy", help="Follow this policy only.")]
Mode = Annotated[str | None, typer.Option("--mode", help="filtered or raw, in the place of what task.toml says.")]
