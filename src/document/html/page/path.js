// The critical path as a lane above those of the ranks: what the job's length consists of, one piece after the other, each on one rank.

import { duration, visible } from './format.js';

const PATH_TALL = 22;
const PATH_COLOURS = { CPU: 'accent', 'launch latency': 'exposed', compute: 'compute', transfer: 'transfer', idle: 'line' };

/** The lane of the critical path; null where it is not known. `lanes` are those of the model. */
export function criticalLane(lanes) {
  return lanes.path?.spans.start.length > 0 ? new CriticalLane(lanes) : null;
}

class CriticalLane {
  constructor({ path, ranks }) {
    Object.assign(this, { ...path.spans, texts: path.texts, ranks, tall: PATH_TALL });
    const kinds = [...new Set(this.kind)].map((kind) => this.texts[kind]);
    this.key = kinds.map((kind) => [PATH_COLOURS[kind], `path: ${kind}`]);
  }

  end(span) {
    return this.start[span] + this.dur[span];
  }

  /** Draws the path, and below the lane of each rank where it is there. `bottom(rank)` is the lane's lower edge, or null. */
  draw(context, at, shown, bottom) {
    const scale = (at.right - at.left) / (at.to - at.from);
    for (let span = this.from(at.from); span < this.start.length && this.start[span] <= at.to; span += 1) {
      const x0 = at.left + (Math.max(this.start[span], at.from) - at.from) * scale;
      const x1 = at.left + (Math.min(this.end(span), at.to) - at.from) * scale;
      context.fillStyle = shown[PATH_COLOURS[this.texts[this.kind[span]]]];
      context.fillRect(x0, at.top, Math.max(0.5, x1 - x0), PATH_TALL - 6);
      const y = bottom(this.rank[span]);
      if (y !== null) context.fillRect(x0, y - 2, Math.max(0.5, x1 - x0), 2);
    }
    context.fillStyle = shown.muted;
    context.textAlign = 'right';
    context.fillText('path', at.left - 6, at.top + (PATH_TALL - 6) / 2);
    context.textAlign = 'left';
  }

  /** The first piece that ends after a time. */
  from(time) {
    let [low, high] = [0, this.start.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end(middle) > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The piece at a time. */
  at(time) {
    const span = this.from(time);
    return span < this.start.length && this.start[span] <= time ? { span } : null;
  }

  /** The next piece in a direction that begins at least so far away. */
  next(span, by, least) {
    for (let at = span + by; at >= 0 && at < this.start.length; at += by) {
      if (Math.abs(this.start[at] - this.start[span]) >= least) return { span: at };
    }
    return { span };
  }

  text({ span }) {
    const name = visible(this.texts[this.name[span]]);
    return `Critical path: rank ${this.ranks[this.rank[span]]}, ${this.texts[this.kind[span]]}: ${name}, at ${duration(this.start[span])}, ${duration(this.dur[span])}`;
  }
}
