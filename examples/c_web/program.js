/* A program that torch.export.c has printed and clang has compiled to WebAssembly: its functions, which
   take typed arrays where those in C take pointers. */

export async function load(bytes) {
    const { instance } = await WebAssembly.instantiate(bytes, {});
    const c = instance.exports;
    let end = c.__heap_base.value;
    const places = []; // memory for each argument, by its place among them

    function room(i, count) {
        if (!places[i] || places[i].count < count) {
            places[i] = { at: (end + 63) & ~63, count };
            end = places[i].at + count;
            const missing = end - c.memory.buffer.byteLength;
            if (missing > 0) c.memory.grow(Math.ceil(missing / 65536));
        }
        return places[i].at;
    }

    const bytesOf = (x) => new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
    const inMemory = (at, x) => new Uint8Array(c.memory.buffer, at, x.byteLength);

    /* Arrays are copied there, and back, as the function may have written into them. */
    return function call(name, ...given) {
        const at = given.map((x, i) => (ArrayBuffer.isView(x) ? room(i, x.byteLength) : x));
        given.forEach((x, i) => ArrayBuffer.isView(x) && inMemory(at[i], x).set(bytesOf(x)));
        const result = c[name](...at);
        given.forEach((x, i) => ArrayBuffer.isView(x) && bytesOf(x).set(inMemory(at[i], x)));
        return result;
    };
}
