"""The library that quantized layers would run on: there is none."""

supported_engines: list[str] = ["none"]
engine = "none"
