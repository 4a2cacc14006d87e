"""The weights of the signals of a :class:`~.confidence.Confidence`, fitted with ``tools/fit_confidence.py``."""

from __future__ import annotations

from collections.abc import Mapping

from ..models.protocol import DEFAULT_EMBEDDER, MULTILINGUAL_EMBEDDER

#: The weights of a logistic model: one for each part of a :class:`~.confidence.Confidence`, and the constant.
SignalWeights = Mapping[str, float]
#: Weights with and without the cosines of a known embedder. Among the data for fitting, only manuals have technical
#: tokens. The first weight of ``lacking`` comes from a separate fit that includes a manual and more parts.
#: All constants are 1.1 less than fitted for equally many questions with and without an answer, so that the default of
#: ``least_confidence``, 0.25, divides the two as 0.5 would.
SIMILARITY_WEIGHTS: SignalWeights = {
    "similarity": 10.0,
    "nearby": 6.82,
    "coverage": 5.11,
    "amount": 0.65,
    "phrases": 1.93,
    "unnamed": -4.75,
    "lacking": -3.94,
    "constant": -10.41,
}
#: For a question in a language other than English, with the embedder of English texts: any two texts in that language
#: have a high cosine, so ``similarity`` counts less, and the terms in the question that no chunk has count too. Fitted
#: on the German and Spanish questions from XQuAD about the articles for fitting and on every second question of four
#: folders; near misses are questions whose paragraph is not in the store. With the constant, as many of these questions
#: are refused that have an answer as with the weights above, and 58 instead of 35 of 122 near misses. On the other
#: articles: 9 instead of 3 of 200, and 59 instead of 46 of 86. ``lacking`` is not fitted.
OTHER_LANGUAGE_WEIGHTS: SignalWeights = {
    "similarity": 3.21,
    "coverage": 4.97,
    "amount": 2.45,
    "unnamed": -1.58,
    "lacking": -3.94,
    "missing": -2.46,
    "constant": -4.73,
}
#: Fitted with multilingual-e5-small on six languages; its cosines are between 0.7 and 0.95. The weight of ``unnamed``
#: is not fitted, because the questions for fitting hardly name anything that their texts lack.
MULTILINGUAL_WEIGHTS: SignalWeights = {
    "similarity": 59.32,
    "nearby": -15.71,
    "coverage": 7.66,
    "amount": 4.75,
    "phrases": 0.81,
    "unnamed": -3.0,
    "lacking": -4.21,
    "constant": -43.9,
}
#: Cosines of texts in writing without spaces are about 0.04 higher, related or not. With this constant, as many
#: questions without an answer are refused as in other writing.
UNSPACED_WEIGHTS: SignalWeights = {**MULTILINGUAL_WEIGHTS, "constant": -45.4}
WORD_WEIGHTS: SignalWeights = {
    "coverage": 6.47,
    "amount": 6.2,
    "phrases": 4.68,
    "unnamed": -5.59,
    "lacking": -0.38,
    "missing": -3.27,
    "constant": -7.26,
}
#: The weights with the cosines of each embedder that they were fitted with.
WEIGHTS_BY_EMBEDDER = {DEFAULT_EMBEDDER: SIMILARITY_WEIGHTS, MULTILINGUAL_EMBEDDER: MULTILINGUAL_WEIGHTS}
