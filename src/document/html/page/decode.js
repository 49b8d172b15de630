// Decodes the program's packed data: gzip in base64, and columns of integers.
// A column is a run of LEB128 varints. What follows its name gives the decoding: of `-` the values are zigzag, of `~` they are that and the difference
// from the previous value. Times are in ns since the start that the table gives, so that they stay below 2^53, up to which numbers are exact.

/** The bytes of a gzip file in base64. */
export async function unpack(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function unpackText(base64) {
  return new TextDecoder().decode(await unpack(base64));
}

/** A table of columns: `{rows, columns: 'name start~ …', data}` becomes `{rows, name: Float64Array, …}`. */
export async function unpackTable(table) {
  return readTable(table, await unpack(table.data));
}

/** The same for bytes that are already unpacked. */
export function readTable({ rows, columns }, bytes) {
  const result = { rows };
  let at = 0;
  for (const column of columns.split(' ')) {
    const [name, mark] = column.split(/(?=[-~])/);
    const values = new Float64Array(rows);
    let before = 0;
    for (let row = 0; row < rows; row += 1) {
      let value = bytes[at] & 127;
      for (let factor = 128; bytes[at] > 127; factor *= 128) {
        at += 1;
        value += (bytes[at] & 127) * factor;
      }
      at += 1;
      if (mark) value = value % 2 === 0 ? value / 2 : -(value + 1) / 2;
      if (mark === '~') value += before;
      before = value;
      values[row] = value;
    }
    result[name] = values;
  }
  if (at !== bytes.length) throw new Error(`a table has ${bytes.length} bytes, of which ${at} were read`);
  return result;
}
