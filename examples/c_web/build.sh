#!/bin/sh
# Prints the training step and the model as C, and compiles both to WebAssembly: clang and lld with
# wasi-libc (Debian: apt install clang lld wasi-libc libclang-rt-14-dev-wasm32).
# Then serve this folder, for example with `python -m http.server`, and open page.html.
set -e
cd "$(dirname "$0")"
(cd "${OUT:=$PWD}" && ${PYTHON:-python} -m tapegrad run "$OLDPWD/../c_file/export.py")
exports=""
for f in learn_init learn_step learn_get_parameters answer_init answer_predict answer_set_parameters; do
    exports="$exports -Wl,--export=$f"
done
${CC:-clang} --target=wasm32-wasi --sysroot="${SYSROOT:-/usr}" -O3 -msimd128 -std=c11 -nostartfiles \
    -Wl,--no-entry -Wl,--export=__heap_base $exports -o "$OUT/spiral.wasm" \
    "$OUT/learn.c" "$OUT/answer.c" -lm
