#!/usr/bin/env bash
# Compiles and links the kernels in C for Windows with mingw-w64. Nothing is run: it shows that every
# file compiles there, and that nothing is missing but what Python gives.
#
#   tools/mingw.sh
#
# The compiler is Debian's, NumPy's headers are those of its wheel for Windows, Python's come with its
# source (CPYTHON_SOURCE: where it is). What cannot be had is said, and nothing is compiled.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/mingw
python=${PYTHON:-python3}
source=${CPYTHON_SOURCE:-http://archive.ubuntu.com/ubuntu/pool/main/p/python3.14/python3.14_3.14.4.orig.tar.xz}
tools/debian_packages.sh build/mingw bookworm "$(dpkg --print-architecture)" \
    gcc-mingw-w64-x86-64-posix || { echo "skipped: mingw"; exit 0; }
mkdir -p "$root/python" "$root/numpy" "$root/objects"
if [ ! -e "$root/python/PC/pyconfig.h" ]; then
    curl -sSfL --max-time 120 "$source" | tar xJ --strip-components 1 -C "$root/python" \
        --wildcards '*/Include' '*/PC/pyconfig.h' || { echo "skipped: no source of Python"; exit 0; }
fi
[ -e "$root/numpy/numpy" ] || "$python" -m pip install -qq --disable-pip-version-check --no-deps \
    --target "$root/numpy" --platform win_amd64 --python-version 3.14 --only-binary=:all: numpy ||
    { echo "skipped: no wheel of NumPy for Windows"; exit 0; }
cp "$root/python/PC/pyconfig.h" "$root/objects/pyconfig.h"
sources=src/tapegrad/kernels/cpu/c
# -isystem: warnings of the headers are not ours. Warnings of ours are errors, but for that of vectors
# in arguments, which all end up inlined.
gcc=("$root/usr/bin/x86_64-w64-mingw32-gcc-posix" -std=gnu11 -O1 -g0 -march=x86-64-v3 -ffp-contract=off
    -fno-math-errno -fno-trapping-math -Wall -Werror -Wno-maybe-uninitialized -Wno-psabi -Wno-unknown-pragmas -Wno-attributes
    -DNPY_TARGET_VERSION=NPY_2_0_API_VERSION -isystem "$root/objects" -isystem "$root/python/Include"
    -isystem "$root/numpy/numpy/_core/include"
    $(find "$sources" -type d | sed 's/^/-I/'))
rm -f "$root"/objects/*.o
find "$sources" -name '*.c' -print0 | xargs -0 -P "$(nproc)" -I{} sh -c \
    'source=$1 out=$2; shift 2; exec "$@" -c "$source" -o "$out/$(basename "$source").o"' \
    - {} "$root/objects" "${gcc[@]}"
# What Python has to give, as the library that a linker wants to see.
names=$("$root/usr/bin/x86_64-w64-mingw32-nm" -u "$root"/objects/*.o | awk '{print $2}' |
    sed 's/^__imp_//' | grep -E '^_?Py' | sort -u)
printf 'LIBRARY python314.dll\nEXPORTS\n%s\n' "$names" >"$root/objects/python.def"
"$root/usr/bin/x86_64-w64-mingw32-dlltool" -d "$root/objects/python.def" -l "$root/objects/libpython.a"
"${gcc[@]}" -shared "$root"/objects/*.o "$root/objects/libpython.a" -o "$root/_kernels.pyd"
echo "$(ls "$root"/objects/*.o | wc -l) files compiled and linked for Windows, $(echo "$names" | wc -w) names of Python's"
