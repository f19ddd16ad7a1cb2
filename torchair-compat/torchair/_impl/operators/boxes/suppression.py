"""Which of boxes that overlap stay.

After Ascend's API reference of torch_npu, pages npu_nms_v4, npu_nms_rotated,
npu_nms_with_mask and npu_batch_nms, op-plugin's tests of them, and the pages of the
kernels that they call."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch._higher_order_ops.while_loop import while_loop_op

from ..checks import FLOATS, check, check_dtype, check_shape, reads_values
from ..definition import npu_operator
from .rotated_overlaps import rotated_overlap


def _next(kept: Tensor, hides: Tensor, able: Tensor) -> Tensor:
    return able & ~(hides & kept.unsqueeze(-2)).any(-1)


def _is_going(kept: Tensor, going: Tensor, hides: Tensor, able: Tensor) -> Tensor:
    return going.clone()


def _step(
    kept: Tensor, going: Tensor, hides: Tensor, able: Tensor
) -> tuple[Tensor, Tensor]:
    better = _next(kept, hides, able)
    return better, (better != kept).any()


def _kept(overlap: Tensor, threshold: float | Tensor, able: Tensor) -> Tensor:
    """Which of the boxes `able` (..., n), best first, stay: those that no better box that
    stays overlaps by more than the threshold. overlap (..., n, n).

    The answer of a box follows from those of better ones, so that each step makes at
    least one more of them right, and a step that changes nothing is the last."""
    hides = (overlap > threshold).tril(-1)
    if not reads_values(able):
        mode = detect_fake_mode([able])
        if mode is not None and mode.shape_env is None:
            raise NotImplementedError(
                "PyTorch's loops need a trace that has symbols for sizes"
            )
        going = torch.ones((), dtype=torch.bool, device=able.device)
        return while_loop_op(
            _is_going, _step, (able.clone(), going), (hides, able.clone())
        )[0]
    kept = able
    while not torch.equal(better := _next(kept, hides, able), kept):
        kept = better
    return kept


def _overlap(boxes: Tensor) -> Tensor:
    """The shared area of each two of boxes (..., n, 4) over that of both, (..., n, n)."""
    one, other = boxes.unsqueeze(-2), boxes.unsqueeze(-3)
    first = torch.maximum(one[..., :2], other[..., :2])
    last = torch.minimum(one[..., 2:], other[..., 2:])
    shared = (last - first).clamp(min=0).prod(-1)
    area = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
    whole = area.unsqueeze(-1) + area.unsqueeze(-2) - shared
    return torch.where(whole > 0, shared / torch.where(whole > 0, whole, 1.0), 0.0)


def _placed(kept: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Where each of boxes (..., n) stands among the first `most` that are kept, `most` for
    the others; and how many there are."""
    rank = kept.to(torch.int64).cumsum(-1) - 1
    place = torch.where(kept & (rank < most), rank, most)
    return place, kept.sum(-1).clamp(max=most).to(torch.int32)


def _moved(values: Tensor, place: Tensor, most: int) -> Tensor:
    """Values (..., n) at their places (..., most); 0 where none stands."""
    shape = (*values.shape[:-1], most + 1)
    return values.new_zeros(shape).scatter(-1, place, values)[..., :most]


def _check_scores(name: str, scores: Tensor, shape: tuple[int, ...]) -> None:
    check_dtype(scores, name, "scores", FLOATS)
    check_shape(scores, name, "scores", shape)


@npu_operator
def npu_nms_v4(
    self: Tensor,
    scores: Tensor,
    max_output_size: Annotated[float, "Scalar"],
    iou_threshold: Tensor,
    scores_threshold: Tensor,
    pad_to_max_output_size: bool = False,
) -> tuple[Tensor, Tensor]:
    """The numbers of the boxes that stay, by their scores, int32 (max_output_size,), with 0
    behind them, and how many there are, int32 (). Computed in f32.

    self                    boxes (n, 4): two corners, in any order
    scores                  (n,); only boxes whose score is above scores_threshold stay
    iou_threshold           (): a box that shares more with a better one does not stay
    pad_to_max_output_size  has no effect: there are always max_output_size numbers

    RuntimeError: another shape or dtype, or a max_output_size that is not above 0.
    """
    name, most = "npu_nms_v4", int(max_output_size)
    check_dtype(self, name, "self", FLOATS)
    right = self.dim() == 2 and self.shape[1] == 4
    check(right, name, f"self must be (n, 4), got {tuple(self.shape)}")
    _check_scores(name, scores, (self.shape[0],))
    text = f"max_output_size must be above 0, got {max_output_size}"
    check(most > 0, name, text)
    for what, limit in (
        ("iou_threshold", iou_threshold),
        ("scores_threshold", scores_threshold),
    ):
        check_dtype(limit, name, what, FLOATS)
        check_shape(limit, name, what, ())
    sorted_scores, order = scores.to(torch.float32).sort(descending=True, stable=True)
    boxes = self.to(torch.float32)[order]
    first, last = boxes[:, :2], boxes[:, 2:]
    corners = torch.cat([torch.minimum(first, last), torch.maximum(first, last)], 1)
    able = sorted_scores > scores_threshold.to(torch.float32)
    kept = _kept(_overlap(corners), iou_threshold.to(torch.float32), able)
    place, count = _placed(kept, most)
    return _moved(order, place, most).to(torch.int32), count


@npu_operator
def npu_nms_rotated(
    self: Tensor,
    scores: Tensor,
    iou_threshold: float,
    scores_threshold: float = 0.0,
    max_output_size: int = -1,
    mode: int = 0,
) -> tuple[Tensor, Tensor]:
    """The numbers of the rotated boxes that stay, by their scores, int32, and how many
    there are, int32 (1,).

    self              boxes (n, 5): centre, width, height and angle in degrees
    scores            (n,); only boxes whose score is above scores_threshold stay
    iou_threshold     a box that shares more with a better one does not stay
    max_output_size   at most so many stay; -1: all
    mode              0

    RuntimeError: another shape, dtype or mode, or a number out of its range.
    """
    name = "npu_nms_rotated"
    check(mode == 0, name, f"mode must be 0, got {mode}")
    check_dtype(self, name, "self", FLOATS)
    right = self.dim() == 2 and self.shape[1] == 5
    check(right, name, f"self must be (n, 5), got {tuple(self.shape)}")
    _check_scores(name, scores, (self.shape[0],))
    text = f"max_output_size must be -1 or above 0, got {max_output_size}"
    check(max_output_size == -1 or max_output_size > 0, name, text)
    sorted_scores, order = scores.to(torch.float32).sort(descending=True, stable=True)
    boxes = self[order].unsqueeze(0)
    overlap = rotated_overlap(boxes, boxes).squeeze(0)
    kept = _kept(overlap, iou_threshold, sorted_scores > scores_threshold)
    if max_output_size > 0:
        kept = kept & (kept.to(torch.int64).cumsum(0) <= max_output_size)
    return order[kept].to(torch.int32), kept.sum().view(1).to(torch.int32)


@npu_operator
def npu_nms_with_mask(
    input: Tensor, iou_threshold: Annotated[float, "Scalar"]
) -> tuple[Tensor, Tensor, Tensor]:
    """The boxes with their scores (n, 5), their numbers, int32 (n,), and which of them
    stay, uint8 (n,): those that share no more than `iou_threshold` with one before that
    stays. Computed in f32.

    input  (n, 5) or (n, 8), best first: left, top, right, bottom, the score, which is not
           read, and what is not kept

    RuntimeError: another shape or dtype.
    """
    name = "npu_nms_with_mask"
    check_dtype(input, name, "input", FLOATS)
    right = input.dim() == 2 and input.shape[1] in (5, 8)
    check(right, name, f"input must be (n, 5) or (n, 8), got {tuple(input.shape)}")
    overlap = _overlap(input[:, :4].to(torch.float32))
    able = torch.ones(input.shape[0], dtype=torch.bool, device=input.device)
    kept = _kept(overlap, float(iou_threshold), able)
    number = torch.arange(input.shape[0], dtype=torch.int32, device=input.device)
    return input[:, :5].clone(), number, kept.to(torch.uint8)


@npu_operator
def npu_batch_nms(
    self: Tensor,
    scores: Tensor,
    score_threshold: float,
    iou_threshold: float,
    max_size_per_class: int,
    max_total_size: int,
    change_coordinate_frame: bool = False,
    transpose_box: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The boxes of each class that stay, all classes by their scores: boxes (b,
    max_total_size, 4), their scores and classes (b, max_total_size) in self's dtype, with 0
    behind them, and how many there are, int32 (b,). Computed in f32.

    self                     boxes (b, n, q, 4): two corners, the smaller one first; q is 1
                             or the number of classes. Others do not stay
    scores                   (b, n, classes)
    change_coordinate_frame  has no effect: no window is given
    transpose_box            the boxes are (b, q, 4, n)

    RuntimeError: another shape or dtype, or a size that is not above 0.
    """
    name = "npu_batch_nms"
    for what, size in (
        ("max_size_per_class", max_size_per_class),
        ("max_total_size", max_total_size),
    ):
        check(size > 0, name, f"{what} must be above 0, got {size}")
    boxes = _boxes_of_classes(name, self, scores, transpose_box)
    wide = scores.to(torch.float32).mT
    ordered, order = wide.sort(dim=-1, descending=True, stable=True)
    index = order.unsqueeze(-1).expand(*order.shape, 4)
    boxes = boxes.expand(*order.shape, 4).gather(2, index)
    able = (ordered > score_threshold) & (boxes[..., 2:] > boxes[..., :2]).all(-1)
    kept = _kept(_overlap(boxes), iou_threshold, able)
    kept = kept & (kept.to(torch.int64).cumsum(-1) <= max_size_per_class)
    # All classes in one row.
    kept, ordered = kept.flatten(1), ordered.flatten(1)
    best = torch.where(kept, ordered, -torch.inf)
    rank = best.argsort(dim=-1, descending=True, stable=True)
    classes = torch.arange(scores.shape[2], device=self.device).to(torch.float32)
    classes = classes.unsqueeze(-1).expand(order.shape[1:]).flatten().expand(kept.shape)
    place, count = _placed(kept.gather(1, rank), max_total_size)
    corners = boxes.flatten(1, 2)
    made = [
        _moved(values.gather(1, rank), place, max_total_size).to(self.dtype)
        for values in (*corners.unbind(-1), ordered, classes)
    ]
    return torch.stack(made[:4], -1), made[4], made[5], count


def _boxes_of_classes(
    name: str, self: Tensor, scores: Tensor, transpose_box: bool
) -> Tensor:
    """The boxes (b, q, n, 4) in f32."""
    check_dtype(self, name, "self", FLOATS)
    wanted = "(b, q, 4, n)" if transpose_box else "(b, n, q, 4)"
    right = self.dim() == 4 and self.shape[2 if transpose_box else 3] == 4
    check(right, name, f"self must be {wanted}, got {tuple(self.shape)}")
    boxes = self.mT if transpose_box else self.transpose(1, 2)
    right = scores.dim() == 3
    check(right, name, f"scores must be (b, n, classes), got {tuple(scores.shape)}")
    _check_scores(name, scores, (boxes.shape[0], boxes.shape[2], scores.shape[2]))
    text = f"self must have boxes of 1 or {scores.shape[2]} classes, got"
    right = boxes.shape[1] in (1, scores.shape[2])
    check(right, name, f"{text} {boxes.shape[1]}")
    return boxes.to(torch.float32)
