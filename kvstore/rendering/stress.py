"""The layout of a network, in which distances on paper match distances in the network. The *distance* of two nodes is
the number of edges on the shortest path between them. Each node is drawn as a *box* around its label.

In: the number of nodes, and edges between them. Out: a position for each node, by stress majorization (Gansner, Koren
and North 2004, "Graph Drawing by Stress Majorization", Graph Drawing, sections 2 and 3.1). It starts from the two main
axes of the distances (classical scaling, Torgerson 1952) and uses no random numbers, so the same network always gets
the same layout. Connected components are laid out separately and packed next to each other. Finally boxes, as wide as
their labels, are pushed apart until they do not overlap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.float64]
#: The widths and heights of boxes, shape (boxes, 2).
Sizes = npt.NDArray[np.float64]
#: The number of edges between two nodes, shape (nodes, nodes).
Distances = npt.NDArray[np.float64]

#: The maximum number of iterations of majorization, and the relative change of stress below which it ends.
_MAX_ITERATIONS, _MIN_IMPROVEMENT = 120, 1e-4
#: The factor by which the layout is widened before boxes are pushed apart, as both boxes and paper are wider than high.
_X_STRETCH = 1.7
#: The layout grows by this factor, up to a limit, until at most this many overlaps per box remain. Boxes that are
#: pushed far apart no longer show the network.
_GROWTH_FACTOR, _MAX_GROWTH, _MAX_OVERLAP_SHARE = 1.1, 2.4, 1.2
#: The maximum number of iterations of pushing boxes apart.
_MAX_PUSHES = 600
#: The angle in radians between successive points of a spiral, at which no two of them are in line with its center.
_GOLDEN_ANGLE = 2.399963
#: Two nodes with less distance than this are at the same point, so neither pulls the other.
_MIN_LENGTH = 1e-9
#: The length of an edge in pixels.
_EDGE_LENGTH = 75.0
#: The minimum gap between boxes, and between components that are laid out in rows, in pixels.
_BOX_GAP_X, _BOX_GAP_Y = 14, 12
_COMPONENT_GAP = 24
#: The width of a row of components: this factor times the square root of the number of boxes, but at least a minimum.
_ROW_WIDTH_FACTOR, _MIN_ROW_WIDTH = 138.0, 900.0


def compute_layout(
    num_boxes: int, edges: Sequence[tuple[int, int]], box_widths: Sequence[float], box_height: float
) -> Positions:
    """Return the centers of boxes in a layout of the network, in pixels, shape (num_boxes, 2).

    ``edges`` are pairs of box indexes, and the sizes are in pixels. Boxes that edges connect are laid out together;
    such groups are put next to each other in rows. The smallest coordinate of a box is 0 on both axes.
    """
    neighbors: list[list[int]] = [[] for _ in range(num_boxes)]
    for first_box, second_box in edges:
        neighbors[first_box].append(second_box)
        neighbors[second_box].append(first_box)
    padded_sizes = [[box_width + _BOX_GAP_X, box_height + _BOX_GAP_Y] for box_width in box_widths]
    sizes = np.array(padded_sizes, np.float64).reshape(num_boxes, 2)
    positions = np.zeros((num_boxes, 2))
    corner, next_row_y = np.zeros(2), 0.0  # the upper left corner of the next component, and of the next row
    max_width = max(_MIN_ROW_WIDTH, _ROW_WIDTH_FACTOR * num_boxes**0.5)
    for component in _find_components(neighbors):
        component_sizes = sizes[component]
        enlarged_positions = _enlarge_layout(_minimize_stress(component, neighbors), component_sizes)
        component_positions = _separate_boxes(enlarged_positions, component_sizes)
        upper_left = (component_positions - component_sizes / 2).min(axis=0)
        lower_right = (component_positions + component_sizes / 2).max(axis=0)
        width, height = lower_right - upper_left
        if corner[0] and corner[0] + width > max_width:
            corner = np.array([0.0, next_row_y])
        positions[component] = component_positions - upper_left + corner
        next_row_y = max(next_row_y, corner[1] + height + _COMPONENT_GAP)
        corner[0] += width + _COMPONENT_GAP
    return positions


def _find_components(neighbors: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the nodes of each connected component, the largest component first.

    ``neighbors[i]`` are the nodes that edges join to node i.
    """
    visited_nodes: set[int] = set()
    components: list[list[int]] = []
    for start in range(len(neighbors)):
        if start in visited_nodes:
            continue
        component, queue = [], deque([start])
        visited_nodes.add(start)
        while queue:
            node = queue.popleft()
            component.append(node)
            for neighbor in neighbors[node]:
                if neighbor not in visited_nodes:
                    visited_nodes.add(neighbor)
                    queue.append(neighbor)
        components.append(sorted(component))
    return sorted(components, key=lambda component_nodes: (-len(component_nodes), component_nodes[0]))


def _compute_distances(component: Sequence[int], neighbors: Sequence[Sequence[int]]) -> Distances:
    """Return the number of edges on the shortest path between each two nodes of a component, shape (nodes, nodes).

    Rows and columns are in the order of ``component``. ``neighbors[i]`` are the nodes that edges join to node i.
    """
    rows = {node: row for row, node in enumerate(component)}
    distances = np.zeros((len(component), len(component)))
    for start in component:
        steps_to_node = {start: 0}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for neighbor in neighbors[node]:
                if neighbor not in steps_to_node:
                    steps_to_node[neighbor] = steps_to_node[node] + 1
                    queue.append(neighbor)
        distances[rows[start], [rows[node] for node in steps_to_node]] = list(steps_to_node.values())
    return distances


def _minimize_stress(component: Sequence[int], neighbors: Sequence[Sequence[int]]) -> Positions:
    """Return positions of nodes, in pixels, whose distances approximate the numbers of edges between the nodes.

    The method is stress majorization. Positions are in the order of ``component``, the nodes of a connected component.
    ``neighbors[i]`` are the nodes that edges join to node i.
    """
    num_nodes = len(component)
    if num_nodes == 1:
        return np.zeros((1, 2))
    distances = _compute_distances(component, neighbors)
    positions = _compute_initial_positions(distances)
    weights = np.where(distances > 0, 1.0 / np.maximum(distances, 1.0) ** 2, 0.0)
    # The Laplacian of the weights, made invertible on its null space, is inverted once for all iterations.
    laplacian = np.diag(weights.sum(1)) - weights
    inverse = np.linalg.inv(laplacian + 1.0 / num_nodes)
    previous_stress = np.inf
    for _ in range(_MAX_ITERATIONS):
        lengths = np.sqrt(((positions[:, None] - positions[None]) ** 2).sum(2))
        stress = float((weights * (lengths - distances) ** 2).sum())
        if previous_stress - stress <= _MIN_IMPROVEMENT * previous_stress:
            break
        previous_stress = stress
        # One step of majorization: minimize the quadratic function that bounds the stress from above.
        safe_lengths = np.maximum(lengths, _MIN_LENGTH)  # not 0, because it is a divisor
        pulls = np.where(lengths > _MIN_LENGTH, -weights * distances / safe_lengths, 0.0)
        np.fill_diagonal(pulls, 0.0)
        np.fill_diagonal(pulls, -pulls.sum(1))
        positions = inverse @ (pulls @ positions)
    return positions * _EDGE_LENGTH


def _compute_initial_positions(distances: Distances) -> Positions:
    """Return positions of nodes, shape (nodes, 2), by classical multidimensional scaling (Torgerson 1952).

    ``distances`` are the distances between the nodes. Each node is also moved by its offset on a small spiral, so that
    no two nodes are at the same point.
    """
    num_nodes = len(distances)
    centering_matrix = np.eye(num_nodes) - 1.0 / num_nodes
    products = -0.5 * centering_matrix @ (distances**2) @ centering_matrix
    eigenvalues, vectors = np.linalg.eigh(products)
    axes = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(eigenvalues[::-1][:2], 1e-6))
    if axes.shape[1] < 2:
        axes = np.hstack([axes, np.zeros((num_nodes, 1))])
    # The sign of an eigenvector is arbitrary; the largest value of each axis is made positive.
    largest = axes[np.abs(axes).argmax(0), np.arange(2)]
    angles = _GOLDEN_ANGLE * np.arange(num_nodes)
    radii = 0.05 + 0.25 * np.arange(num_nodes)[:, None] / num_nodes  # much shorter than an edge, which has length 1
    spiral = np.stack([np.cos(angles), np.sin(angles)], 1) * radii
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0) + spiral)


def _enlarge_layout(positions: Positions, sizes: Sizes) -> Positions:
    """Return the centers of boxes moved away from each other until few boxes overlap.

    The layout is widened once, and then enlarged in steps up to ``_MAX_GROWTH``. ``sizes`` has the width and the height
    of each box.
    """
    layout, growth = positions * (_X_STRETCH, 1.0), 1.0
    while growth < _MAX_GROWTH:
        # Two boxes overlap if they do on both axes.
        overlaps_on_axis = (sizes[:, None] + sizes[None]) / 2 > np.abs(layout[:, None] - layout[None]) * growth
        num_overlaps = overlaps_on_axis.all(2).sum() - len(positions)  # without each box and itself
        if num_overlaps <= _MAX_OVERLAP_SHARE * len(positions):
            break
        growth *= _GROWTH_FACTOR
    return layout * growth


def _separate_boxes(positions: Positions, sizes: Sizes) -> Positions:
    """Return the centers of boxes after overlapping boxes were pushed apart along the axis on which they overlap less.

    ``sizes`` has the width and the height of each box. After ``_MAX_PUSHES`` iterations, boxes may still overlap.
    """
    positions = positions.copy()
    for _ in range(_MAX_PUSHES):
        gaps = positions[:, None] - positions[None]
        overlaps = (sizes[:, None] + sizes[None]) / 2 - np.abs(gaps)  # boxes overlap if both are positive
        is_overlapping = np.asarray((overlaps > 0.5).all(2))
        np.fill_diagonal(is_overlapping, False)
        if not is_overlapping.any():
            break
        overlaps_less_on_x = overlaps[..., 0] < overlaps[..., 1]
        # If two boxes are aligned, the first one moves left, or up.
        indexes = np.arange(len(positions))
        default_signs = np.where(indexes[:, None] < indexes[None], -1.0, 1.0)
        push = np.zeros_like(positions)  # half of the mean of the shifts away from all overlapping boxes
        for axis, is_pushed_on_axis in ((0, overlaps_less_on_x), (1, ~overlaps_less_on_x)):
            is_pushed = is_overlapping & is_pushed_on_axis
            signs = np.where(np.abs(gaps[..., axis]) < 1e-6, default_signs, np.sign(gaps[..., axis]))
            shifts = np.where(is_pushed, signs * overlaps[..., axis], 0.0)
            push[:, axis] = 0.5 * shifts.sum(1) / np.maximum(is_pushed.sum(1), 1)
        positions += push
    return positions
