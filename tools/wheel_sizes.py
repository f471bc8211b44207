"""Where the bytes of a wheel are.

python tools/wheel_sizes.py dist/tapegrad-0.1.0-py3-none-any.whl [--depth 2] [--files 20]
"""

from __future__ import annotations

import argparse
import zipfile
from collections import Counter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel")
    parser.add_argument("--depth", type=int, default=2, help="of the folders")
    parser.add_argument("--files", type=int, default=20, help="how many of the largest files")
    chosen = parser.parse_args()
    packed: Counter[str] = Counter()
    plain: Counter[str] = Counter()
    endings: Counter[str] = Counter()
    entries = zipfile.ZipFile(chosen.wheel).infolist()
    for entry in entries:
        size = entry.compress_size + 2 * len(entry.filename) + 76  # with its two headers
        folder = "/".join(entry.filename.split("/")[:-1][: chosen.depth])
        packed[folder] += size
        plain[folder] += entry.file_size
        endings[entry.filename.rpartition(".")[2]] += size
    whole, unpacked = sum(packed.values()), sum(plain.values())
    print(f"{whole:>9,} bytes in {len(entries)} files, {unpacked:,} unpacked")
    for folder, size in packed.most_common():
        print(f"{size:>9,} {plain[folder]:>10,}  {folder}")
    print("by kind:", ", ".join([f".{e} {n:,}" for e, n in endings.most_common()]))
    for entry in sorted(entries, key=lambda e: -e.compress_size)[: chosen.files]:
        print(f"{entry.compress_size:>9,} {entry.file_size:>10,}  {entry.filename}")


if __name__ == "__main__":
    main()
