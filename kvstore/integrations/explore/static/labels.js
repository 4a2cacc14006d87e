"use strict";
/* The labels of a picture that are drawn: of labels that overlap, only the first. A label is not drawn either if it
   overlaps the node of an earlier one; `nodes` are the boxes of the nodes, in the order of the labels. */
var selectLabels = (boxes, nodes = []) => {
  const drawn = [];
  return boxes.map((box, index) => {
    const isFree = [...drawn, ...nodes.slice(0, index)].every((other) => box.x2 <= other.x1 || other.x2 <= box.x1 || box.y2 <= other.y1 || other.y2 <= box.y1);
    if (isFree) drawn.push(box);
    return isFree;
  });
};
/* The box of a label that is centered below a node; `measure` returns the width of a text. Longer labels end with `…`. */
var findLabelBox = ({ x, y, radius, size, label }, maxWidth, measure) => {
  const width = Math.min(maxWidth, measure(label)), top = y + radius + 4;
  return { x1: x - width / 2, x2: x + width / 2, y1: top, y2: top + 1.25 * size };
};
