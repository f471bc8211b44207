#!/usr/bin/env bash
# The kernels in C on arm64, for machines that have none: cross-compiled with GCC, run under QEMU.
#
#   tools/arm64.sh [pytest's arguments]        # without arguments: tests/test_native_core.py
#
# A test takes 20 times as long there as here. Everything comes from Debian and PyPI into build/; when
# it cannot be had, that is said, and nothing is tested.
# Afterwards build/arm64/usr/bin/python3.13 runs the package with PYTHONPATH=build/arm64-src, and
# build/arm64-bits.txt has the bits of some results, to be compared with this machine's:
#
#   PYTHONPATH=src .venv/bin/python tools/bits.py > here.txt
#   python tools/bits.py here.txt build/arm64-bits.txt
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/arm64
if ! tools/debian_python.sh build/arm64 3.13 arm64 || ! tools/debian_packages.sh build/arm64-gcc \
    bookworm "$(dpkg --print-architecture)" gcc-12-aarch64-linux-gnu libc6-dev-arm64-cross; then
    echo "skipped: arm64"
    exit 0
fi
cross=$PWD/build/arm64-gcc/usr
own=$(find "$cross/lib" -name 'libopcodes-*-arm64.so' -printf '%h\n' | head -1) # the assembler's
gcc=(env "PATH=$cross/bin:$PATH" "LD_LIBRARY_PATH=$own" aarch64-linux-gnu-gcc-12)
python=$root/usr/bin/python3.13
sources=build/arm64-src
rm -rf "$sources"
mkdir -p "$sources/objects"
cp -r src/tapegrad "$sources/"
find "$sources" -name '*.so' -delete
folder=$sources/tapegrad/kernels/cpu
flags=(-std=gnu11 -O3 -g0 -fPIC -ffp-contract=off -fno-math-errno -fno-trapping-math
    -fvisibility=hidden -DNPY_TARGET_VERSION=NPY_2_0_API_VERSION "-I$root/usr/include/python3.13"
    "-I$root/usr/lib/python3/dist-packages/numpy/_core/include" -isystem
    "$cross/aarch64-linux-gnu/include" $(find "$folder/c" -type d | sed 's/^/-I/'))
find "$folder/c" -name '*.c' -print0 | xargs -0 -P "$(nproc)" -I{} sh -c \
    'source=$1 out=$2; shift 2; exec "$@" -c "$source" -o "$out/$(basename "$source").o"' \
    - {} "$sources/objects" "${gcc[@]}" "${flags[@]}"
libraries=$root/usr/lib/aarch64-linux-gnu
"${gcc[@]}" -shared -nostdlib "$("${gcc[@]}" -print-file-name=crtbeginS.o)" \
    "$sources"/objects/*.o -o "$folder/_kernels.so" \
    "$libraries/libm.so.6" "$libraries/libc.so.6" "$libraries/libc_nonshared.a" -lgcc \
    "$("${gcc[@]}" -print-file-name=crtendS.o)"
export PYTHONPATH=$sources
unset PYTHONDONTWRITEBYTECODE # modules are compiled once
"$python" -c "
from tapegrad.kernels.cpu import KERNELS, REASON
assert KERNELS, REASON
print('kernels in C on', __import__('platform').machine())"
if [ $# -eq 0 ]; then
    set -- tests/test_native_core.py
fi
"$python" -m pytest -q -p no:cacheprovider -m "not slow and not thorough" "$@"
"$python" tools/bits.py >build/arm64-bits.txt
echo "bits of results: build/arm64-bits.txt, for tools/bits.py"
