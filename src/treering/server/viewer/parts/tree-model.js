// The entries of a session as a tree that grows: what the tree and the compare page ask of it, without any drawing.

const NONE = Object.freeze([]);

/**
 * Every entry of a session, on all branches. Entries are named by their seq; 0 stands for "none" and is the parent of
 * roots.
 */
export class TreeModel {
  /** @param {{ids: string[], seqs: number[], parents: number[], kinds: number[], types: [string, string|null][],
   *   labels: Record<string, string>, leaf: number}} columns what `GET …/tree/columns` replies under `tree` */
  constructor(columns) {
    this.seqs = [];
    this.leaf = 0;
    this.labels = new Map(Object.entries(columns.labels));
    this._nodes = [];
    this._children = [[]];
    this._seqById = new Map();
    columns.seqs.forEach((seq, place) => {
      const [type, role] = columns.types[columns.kinds[place]];
      this._add(seq, columns.ids[place], columns.parents[place], type, role);
    });
    this.leaf = columns.leaf;
  }

  /** How many entries there are. */
  get size() {
    return this.seqs.length;
  }

  _add(seq, id, parent, type, role) {
    const node = { seq, id, parent, type, role };
    this.seqs.push(seq);
    this._nodes[seq] = node;
    this._seqById.set(id, seq);
    (this._children[parent] ??= []).push(seq);
  }

  /**
   * Adds an entry that arrived, in its native form; an entry that is there already changes nothing.
   * @returns {boolean} whether the tree changed
   */
  append(entry) {
    if (!entry.id || this._nodes[entry.seq]) return false;
    const role = entry.message?.role ?? null;
    const known = ["user", "assistant", "tool", "system"].includes(role) ? role : null;
    this._add(entry.seq, entry.id, this.seqOf(entry.parent_id), entry.type, known);
    if (entry.type === "label") this.setLabel(entry.label.target_id, entry.label.label);
    if (!entry.aside) this.leaf = entry.seq;
    return true;
  }

  /** Gives the entry with this id a label, or takes it away. */
  setLabel(id, label) {
    if (label) this.labels.set(id, label);
    else this.labels.delete(id);
  }

  /** @returns {{seq: number, id: string, parent: number, type: string, role: string|null}|undefined} */
  node(seq) {
    return this._nodes[seq];
  }

  /** The seq of an id, or 0. */
  seqOf(id) {
    return (id && this._seqById.get(id)) || 0;
  }

  /** The label of an entry, or undefined. */
  labelOf(seq) {
    return this.labels.get(this._nodes[seq]?.id);
  }

  /** The seqs of the children, oldest first; of 0, the roots. */
  children(seq) {
    return this._children[seq] ?? NONE;
  }

  /** The seqs from the root to an entry. */
  pathTo(seq) {
    const path = [];
    for (let at = seq; at && path.length <= this.size; at = this._nodes[at]?.parent ?? 0) path.push(at);
    return path.reverse();
  }

  /** The last entry that both paths have, or 0. */
  commonAncestor(one, other) {
    const path = new Set(this.pathTo(one));
    return this.pathTo(other).findLast((seq) => path.has(seq)) ?? 0;
  }

  /** The end of the newest branch below an entry, by following the newest child; the entry itself if it has none. */
  tipBelow(seq) {
    let at = seq;
    while (this.children(at).length) at = this.children(at).at(-1);
    return at;
  }

  /** How many entries each subtree has, itself included, by seq. */
  sizes() {
    const sizes = new Uint32Array((this.seqs.at(-1) ?? 0) + 1);
    for (let place = this.seqs.length - 1; place >= 0; place -= 1) {
      const seq = this.seqs[place];
      sizes[seq] += 1;
      const { parent } = this._nodes[seq];
      if (parent < seq) sizes[parent] += sizes[seq];
    }
    return sizes;
  }

  /** The entries with several children, and the leaf if anything is below it: where side branches begin. */
  branchPoints() {
    return this.seqs.filter((seq) => this.children(seq).length > (seq === this.leaf ? 0 : 1));
  }
}
