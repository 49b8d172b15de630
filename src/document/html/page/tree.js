// The tree of all call paths, as arrays: shared prefixes once, outermost caller first.
// Children have larger numbers than their parent, so that sums over subtrees take one pass from the end.

/** A tree of the call paths of a model's stacks. Node 0 is the root, above all outermost callers. */
export class CallTree {
  constructor({ stacks }) {
    const most = stacks.reduce((sum, { frames }) => sum + frames.length, 1);
    const none = () => new Int32Array(most).fill(-1);
    Object.assign(this, { stacks, parent: none(), frame: none(), firstChild: none(), nextSibling: none(), endOf: none(), size: 1, sums: new Map() });
    const find = this.finder(most);
    this.leafOf = Int32Array.from(stacks, ({ frames }) => frames.reduce((node, { id }) => find(node, id), 0));
    for (let stack = stacks.length - 1; stack >= 0; stack -= 1) this.endOf[this.leafOf[stack]] = stack;
    this.below = this.total(() => 1);
  }

  // Finds or makes the child of a node with a frame. A hash table with open addressing, since a Map of 2,000,000 keys takes seconds.
  finder(most) {
    const slots = 2 ** Math.ceil(Math.log2(most * 2 + 1024));
    const table = new Int32Array(slots);
    return (parent, frame) => {
      let at = (Math.imul(parent, 0x9e3779b1) ^ Math.imul(frame + 1, 0x85ebca6b)) >>> 0;
      at = (at ^ (at >>> 15)) & (slots - 1);
      for (; table[at] !== 0; at = (at + 1) & (slots - 1)) {
        if (this.parent[table[at]] === parent && this.frame[table[at]] === frame) return table[at];
      }
      const node = this.size;
      this.size += 1;
      table[at] = node;
      this.parent[node] = parent;
      this.frame[node] = frame;
      this.nextSibling[node] = this.firstChild[parent];
      this.firstChild[parent] = node;
      return node;
    };
  }

  total(value) {
    const sums = new Float64Array(this.size);
    this.stacks.forEach((stack, at) => (sums[this.leafOf[at]] += value(stack)));
    for (let node = this.size - 1; node > 0; node -= 1) sums[this.parent[node]] += sums[node];
    return sums;
  }

  sum(key) {
    if (!this.sums.has(key)) this.sums.set(key, this.total((stack) => stack[key] ?? 0));
    return this.sums.get(key);
  }

  /** The only child of a node at which no path ends; -1 if there are several or none. */
  only(node) {
    const child = this.firstChild[node];
    return child >= 0 && this.nextSibling[child] < 0 && this.endOf[node] < 0 ? child : -1;
  }

  children(node) {
    const nodes = [];
    for (let child = this.firstChild[node]; child >= 0; child = this.nextSibling[child]) nodes.push(child);
    return nodes;
  }

  /** A stack below a node, unique if the node has only one. */
  stackBelow(node) {
    let at = node;
    while (this.endOf[at] < 0) at = this.firstChild[at];
    return this.endOf[at];
  }

  path(node) {
    const nodes = [];
    for (let at = node; at >= 0; at = this.parent[at]) nodes.push(at);
    return nodes.reverse();
  }
}
