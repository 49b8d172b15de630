// Columns of varints, worked out by hand: seven bits a byte, the lowest first, 128 for "more follow".
const read = (rows, columns, bytes) => readTable({ rows, columns }, Uint8Array.from(bytes));
const values = (table, name) => Array.from(table[name]);

equal(values(read(5, 'n', [0, 1, 127, 0x80, 1, 0xac, 2]), 'n'), [0, 1, 127, 128, 300], 'plain');
// Zigzag: 0, 1, 2, 3, 4 are 0, -1, 1, -2, 2; 299 is -150.
equal(values(read(6, 'n-', [0, 1, 2, 3, 4, 0xab, 2]), 'n'), [0, -1, 1, -2, 2, -150], 'signed');
// 10, 10 - 3, 7 + 150
equal(values(read(3, 'n~', [20, 5, 0xac, 2]), 'n'), [10, 7, 157], 'differences');

// 2^52 is 7 bytes of zeros and, at bit 49, the 3 of 8; 2^53 - 1 is seven times 127 and 15.
const zeros = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80];
const ones = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
equal(values(read(2, 'n', [...zeros, 8, ...ones, 15]), 'n'), [2 ** 52, Number.MAX_SAFE_INTEGER], 'large');
// -(2^52) as zigzag is 2^53 - 1; +2^51 is 2^52.
equal(values(read(2, 'n-', [...ones, 15, ...zeros, 8]), 'n'), [-(2 ** 52), 2 ** 51], 'large and signed');
equal(values(read(3, 'n~', [...zeros, 8, 1, 4]), 'n'), [2 ** 51, 2 ** 51 - 1, 2 ** 51 + 1], 'large differences');

const two = read(2, 'a~ b-', [14, 2, 1, 2]);
equal([two.rows, values(two, 'a'), values(two, 'b')], [2, [7, 8], [-1, 1]], 'two columns: a delta does not go on into the next');
equal(values(read(0, 'n', []), 'n'), [], 'no rows');

const fails = (what, rows, bytes) => {
  let error = null;
  try {
    read(rows, 'n', bytes);
  } catch (thrown) {
    error = thrown;
  }
  equal(error instanceof Error, true, what);
};
fails('a byte too many', 1, [1, 2]);
fails('a byte too few', 2, [1]);
fails('cut off within a value', 1, [0x80]);

// What Python's gzip.compress(bytes([7, 1, 1, 2]), mtime=0) writes, in base64.
const packed = 'H4sIAAAAAAACA2NnZGQCAP/dREoEAAAA';
equal(Array.from(await unpack(packed)), [7, 1, 1, 2], 'gzip in base64');
const table = await unpackTable({ rows: 2, columns: 'a b-', data: packed });
equal([values(table, 'a'), values(table, 'b')], [[7, 1], [-1, 1]], 'a packed table');
equal(await unpackText('H4sIAAAAAAACAzu0tVhH4fnySQof5i9r4AIAKgK88g4AAAA='), 'µs, 秒 🦀\n', 'a text outside ASCII');
let error = null;
try {
  await unpack('AAAA');
} catch (thrown) {
  error = thrown;
}
equal(error !== null, true, 'what is not gzip is refused');
