// What the stages of a pipeline compute, on the lanes of their ranks: forward or back, each piece with the number of its microbatch.

import { readable } from './bars.js';
import { duration, visible } from './format.js';

// Back, and forward.
const PIECE_COLOURS = ['good', 'caused'];

/** The pieces of a pipeline; null where none are known. `lanes` are those of the model. */
export function pipelinePieces(lanes) {
  return lanes.pieces.rows > 0 ? new Pieces(lanes) : null;
}

class Pieces {
  constructor({ pieces, ranks }) {
    Object.assign(this, { ...pieces, ranks });
    // By rank: its first piece, and the one after its last.
    this.of = ranks.map(() => [0, 0]);
    for (let at = 0; at < pieces.rows; at += 1) {
      const of = this.of[pieces.rank[at]];
      if (of[1] === 0) of[0] = at;
      of[1] = at + 1;
    }
    this.key = [
      [PIECE_COLOURS[1], 'forward'],
      [PIECE_COLOURS[0], 'backward'],
    ];
  }

  /** Draws them in the lower part of their lanes, so that messages beside them can be seen. */
  draw(context, at, shown, { lane, tall }) {
    const scale = (at.right - at.left) / (at.to - at.from);
    const high = pieceHeight(tall);
    context.textAlign = 'center';
    this.of.forEach(([first, end], rank) => {
      if (lane[rank] < 0) return;
      const y = at.top + (lane[rank] + 1) * tall - high - (tall > 8 ? 3 : 0);
      for (let piece = first; piece < end; piece += 1) {
        const [from, to] = [Math.max(this.start[piece], at.from), Math.min(this.start[piece] + this.dur[piece], at.to)];
        if (to < from) continue;
        const [x, wide] = [at.left + (from - at.from) * scale, Math.max(0.5, (to - from) * scale)];
        const colour = PIECE_COLOURS[this.forward[piece]];
        context.fillStyle = shown[colour];
        context.fillRect(x, y, wide, high);
        const number = this.number(piece);
        if (number === null || high < 10 || context.measureText(number).width + 4 > wide) continue;
        context.fillStyle = readable(shown, colour);
        context.fillText(number, x + wide / 2, y + high / 2 + 0.5);
      }
    });
    context.textAlign = 'left';
  }

  /** The number of its microbatch, from 0, as text. */
  number(piece) {
    return this.microbatch[piece] > 0 ? String(this.microbatch[piece] - 1) : null;
  }

  /** The piece of a rank at a time, `y` pixels below the top of its lane; or null. */
  at(rank, time, y, tall) {
    if (y < tall - pieceHeight(tall) - 3) return null;
    const [first, end] = this.of[rank];
    for (let piece = first; piece < end && this.start[piece] <= time; piece += 1) {
      if (this.start[piece] + this.dur[piece] > time) return piece;
    }
    return null;
  }

  /** The next piece of the same rank in a direction, or the same one. */
  next(piece, by) {
    const [first, end] = this.of[this.rank[piece]];
    return Math.min(Math.max(piece + by, first), end - 1);
  }

  text(piece) {
    const number = this.number(piece);
    const of = number === null ? '' : ` of microbatch ${number}`;
    const rank = visible(String(this.ranks[this.rank[piece]]));
    return `Rank ${rank}, ${this.forward[piece] ? 'forward' : 'backward'}${of}, at ${duration(this.start[piece])}, ${duration(this.dur[piece])}`;
  }
}

function pieceHeight(tall) {
  return tall > 8 ? Math.round((tall - 3) * 0.7) : tall;
}
