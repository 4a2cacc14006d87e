"""Word lists of the rules for names in English.

Out: words and endings that decide if capitalized words are a name, if a heading names a subject, and if a phrase is a
term. They are lists of the rules in :mod:`.names`, and the extraction of relations uses some of them. What is derived
from stored documents depends on them, so a change needs a new version of the pipeline.
"""

from __future__ import annotations

#: The months, in order.
MONTHS = tuple("january february march april may june july august september october november december".split())
#: Months, days and seasons: alone they are not names.
CALENDAR_WORDS = frozenset(
    (*MONTHS, *"monday tuesday wednesday thursday friday saturday sunday spring summer autumn winter".split())
).union("mondays tuesdays wednesdays thursdays fridays saturdays sundays".split())
#: Abbreviated months and days: next to a number they are part of a date, alone they can be a person.
CALENDAR_ABBREVIATIONS = frozenset(
    "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun".split()
)
#: Words in capitals before or after a name, and units: alone they are not names.
TITLES_AND_UNITS = frozenset(
    """
    mr mrs ms dr prof sir lord lady st jr sr mt inc ltd co corp llc gmbh plc vs maj gen col capt lt sgt rev hon gov sen
    rep bc ad bce ce am pm kb mb gb tb pb kib mib gib tib hz khz mhz ghz kg km cm mm ms no nos vol ed eds pp kw mw gw
    kwh kv e.g i.e etc mph rpm dpi px fps psi utc gmt cllr kva kpa mah
    """.split()
)
#: Units that are names in capitals: a DBA administers databases, and an HPA scales pods.
MIXED_CASE_UNITS = frozenset("dB dBA hPa".split())
#: Units before the noun that they measure: *g flour* of *450 g flour* is not a term.
MEASURING_UNITS = frozenset("g kg mg l ml cl dl tsp tbsp oz lb lbs".split())
#: Adjectives of peoples and places without a typical ending: alone they are not names.
PEOPLE_ADJECTIVES = frozenset(
    """
    swiss dutch welsh czech greek thai afghan basque catalan croat cypriot filipino hindi icelandic kurd pakistani
    israeli iraqi kuwaiti qatari omani yemeni saudi bengali punjabi somali uzbek kazakh tajik turkmen azerbaijani serb
    slovak slovene frankish gallic hellenic nordic slavic celtic germanic semitic arabic arab olympic
    """.split()
)
#: The typical endings of adjectives of peoples and places.
PEOPLE_ENDINGS = ("ish", "ese")
#: Numbers in words: alone they are not names.
NUMERALS = frozenset(
    """
    one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion
    """.split()
)
#: Words for an organization at the end of its name (``Food and Drug Administration``) or before its subject
#: (``Institute for Advanced Study``).
ORGANIZATION_WORDS = frozenset(
    """
    academy administration agency alliance assembly association authority bank board bureau campaign center centre
    church club coalition college commission committee company conference congress convention corporation council
    court department directorate division federation foundation fund group hospital initiative institute institution
    laboratory league library ministry movement museum network observatory office organisation organization party
    press programme program school secretariat service society trust union university
    award awards prize act bill fellowship medal network railway secretary minister
    """.split()
)
#: Endings of adjectives derived from names.
NAME_ADJECTIVE_ENDINGS = (
    "-based",
    "-specific",
    "-like",
    "-related",
    "-style",
    "-born",
    "-era",
    "-wide",
    "-compatible",
    "-only",
    "-centric",
    "-language",
)
#: Endings of words for an organization's subject, after its *of*.
FIELD_ENDINGS = ("s", "ment", "tion", "sion", "ity", "ance", "ence", "ing", "ics")
#: The abbreviation of a saint, which begins a name (``St. Paul``).
SAINTS = frozenset(("St", "St."))
#: Words of more than two characters with a final dot.
DOTTED_WORDS = frozenset(("St.", "Jr.", "Sr.", "Mt.", "Dr.", "Mr.", "Mrs."))
#: Words inside a name if a capitalized word follows.
PARTICLES = frozenset(
    """
    of de da do dos du des del della di la le las los von van der den ter ten zu bin ibn al el y e the for
    """.split()
)
#: Pairs of particles that can occur together inside a name.
PARTICLE_PAIRS = frozenset(
    {
        ("of", "the"),
        ("de", "la"),
        ("de", "las"),
        ("de", "los"),
        ("van", "der"),
        ("van", "den"),
        ("von", "der"),
        ("for", "the"),
    }
)

#: Words before an identifier that say its kind.
CODE_CLASS_WORDS = frozenset(
    """
    argument option parameter variable field function command macro constant flag directive method attribute keyword
    version socket struct structure member module class type element
    """.split()
)
#: Words that refer to a place in a text or to a step, with a number or letter after them: not part of a name.
NUMBERED_WORDS = frozenset(
    """
    section chapter appendix part table figure fig page step example equation note item line volume vol column row
    listing version release level rule case question type
    """.split()
)
#: Adjectives of size, age, order, worth and comparison: they distinguish things and are not part of a name.
QUALIFYING_ADJECTIVES = frozenset(
    """
    large small big little huge tiny great vast tall short long wide narrow high low deep new old young recent ancient
    modern early late former current present main major minor important significant essential necessary
    key common typical usual general special particular specific certain various several numerous many few more most
    much less least such other another same different similar related respective own single double entire whole full
    complete total only very first second third next last final previous following good better best bad worst nice
    famous popular notable future leading premier
    well-known known unknown possible potential available useful interesting simple complex
    easy difficult hard beautiful strong weak rich poor close near far
    """.split()
)
#: Adjectives of circumstance or opinion: a phrase that begins with one of them is not a term.
CONTEXTUAL_ADJECTIVES = QUALIFYING_ADJECTIVES | frozenset(
    """
    multiple subsequent
    additional further extra existing resulting corresponding appropriate suitable proper correct incorrect right wrong
    actual real true false given specified desired required requested expected intended preferred recommended proposed
    optional mandatory separate individual overall latest newest older newer larger smaller longer shorter higher lower
    greater bigger faster slower earlier later upcoming remaining nearby
    strange serious terrible wonderful incredible enormous slight brief quick sudden obvious clear apparent likely
    unlikely able unable ready sure aware happy sad afraid successful unsuccessful effective efficient sufficient
    enough equal equivalent identical distinct unique unusual normal ordinary reasonable relevant irrelevant
    considerable substantial increasing growing enabled disabled updated modified changed added removed renowned
    prominent wealthy local selected original debut quirky empty
    """.split()
)
#: Headings of parts of a text that are not its subjects.
GENERIC_HEADINGS = frozenset(
    """
    introduction overview summary abstract conclusion conclusions background contents content index appendix appendices
    preface foreword prologue epilogue acknowledgements acknowledgments references bibliography citations sources notes
    note footnotes examples example description synopsis parameters options arguments usage outputs output inputs input
    returns compatibility author authors links miscellaneous general details discussion results result method methods
    materials limitations caveats warnings tips faq changes changelog history prerequisites requirements motivation
    scope purpose definitions definition terminology outline part chapter section other others todo license licence
    contributing installation copyright copying bugs files name exit status environment diagnostics standards
    attributes availability colophon warning tip important caution hint remark remarks next previous prev home up back
    top search navigation menu download downloads comments comment versions version conforming errors library feedback
    contact help about news sidebar footer
    """.split()
) | {
    *("see also", "further reading", "external links", "related topics", "getting started", "quick start"),
    *("exit status", "return value", "return values", "reporting bugs", "table of contents", "release notes"),
    *("related articles", "skip to content", "edit this page", "read more", "first steps", "next steps"),
}
#: Endings of words in *s* that are not plurals.
NON_PLURAL_ENDINGS = (
    *("ss", "us", "is", "series", "species", "news", "means", "diabetes", "rabies", "measles", "mumps", "herpes"),
    *("headquarters", "barracks", "crossroads", "lens", "gas", "bias", "canvas", "atlas", "alias", "physics"),
    *("mathematics", "economics", "politics", "genetics", "linguistics", "logistics", "robotics", "electronics"),
)
#: Endings of plurals in *es* that lose only the *s*.
SINGLE_S_PLURALS = ("caches", "aches", "niches", "avalanches", "axes")
