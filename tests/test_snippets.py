"""Tests of the snippets of texts whose lines are entries: clauses, columns, fields and definitions."""

from __future__ import annotations

import time

import pytest

from kvstore.answering.passages import split_snippets
from kvstore.answering.settings_snippets import split_settings
from kvstore.answering.snippets import PassageBlock, iter_release_snippets
from kvstore.text.blocks import parse_blocks

CONTRACT = """\
3. Rent
3.1 The monthly rent is 2,450 EUR plus VAT. It is due on the third working day.
3.2 The advance payment on service charges is 380 EUR a month, and they are
settled by October.

4. Security
The Tenant pays a deposit of three net monthly rents before the keys are handed over.
"""
HOURS = "Loans\n  Books        28 days\n  Board games  14 days\n"
MINUTES = "**Present:** Ruth Abel (chair), Tomasz Nowak\n**Excused:** Peter Quist, who sends his regards.\n"
ATTENDANCE = "Present: Ines Okafor, Tom Brandt.\nThe treasurer reported a surplus of 2,300 euros.\n"
FIRST_AID = "Eyes: Rinse at once. Do not rub. Skin: Wash for ten minutes. Use cold water.\n"
STOCK = """\
STOCK ON 30 JUNE

==========================================
Article        Packing        Stock  Value
------------------------------------------
Rope 8 mm      100 m reel         4  21.00
Shackle        each              60
------------------------------------------
Total                                21.00
==========================================

Counted by Ann. The rates are as follows.
  Adults         2.50    after six less
  Children       1.00    after six none
Members count for free.
"""
MANUAL = """\
Fuel
----
Refuel in time.

Key deposit
: 20 EUR, paid back.

|  | Cloud | Own |
|---|---|---|
| Cost | 5 EUR | - |
| Size | 2 GB |
|| free | free |
"""
FLYER = """\
Open day 2026
=============

Stall with plants ......... Hettie
Raffle .................... Marguerite
"""
KENNELS = """\
2. PRICES PER NIGHT
      Dog, small (to 10 kg) ................ GBP 24.00
      Dog, medium (10 to 25 kg) ............ GBP 28.50
      Dog, large (over 25 kg) .............. GBP 33.00
      Heat lamp (winter) ................... free of charge
"""
LOGBOOK = """\
12/4 Brompton of Mrs Lund: new brake pads rear, gear cable replaced, 46 euros
14/4 Gazelle of the post office: spoke broken, wheel trued, waiting for
the rim tape
"""
LIDO = """\
THE LIDO

Tickets
A day ticket is 7.80 for adults. It is sold at the gate.

Lost property
Keys and phones are kept at the kiosk for four weeks.
Then they go to the police.

The deep end
The pool is 3.4 metres deep, and it is heated to 22 degrees.
"""
LEASE = """\
1. Term

1.1 The term is three years. It begins in April.

2. Repairs

2.1 The tenant repairs the inside.

2.2 It repaints the walls, too.

3. Charges
"""
STORAGE = """\
## Spills
Leave the room.

Storage limits

| Substance | Limit |
|---|---|
| Acetone | 5 l |
| Styrene | 1 l |

Report every spill.
"""
SUPPLIERS = """\
SUPPLIERS - SUMMARY FOR THE FILE

1.  HOW TO ORDER
    Ring the desk before noon, or send the green form to the storeroom in
    good time.
    Nothing comes on Sundays.

=================================
No phone calls after six
Door code from the guard
Keys at the desk, ask for the list of names and sign it, please, before you go up

Room 3 Ann Lee, has the lift key. Ring twice.
Room 5 Bo Ray, makes tea. Ring once.

1. no badge
2. interruption
3. no label
"""
REPLY = """\
The car leaves at 6:15.

Le sam. 7 mars 2026 à 11:02, Bertrand Colas a écrit :

> When does it leave? I need to tell
> the driver.
>
> Bertrand needs a reply today.
"""
STEPS = """\
## Setup
1. Install the package:

   ```sh
   pip install tool
   ```
2. Create the tables.

**Labels are cut off.** Set the printer to 62 mm.

[docs]: https://example.org/docs
[manual]: manual.pdf "Manual"
"""


@pytest.mark.parametrize(
    ("text", "format", "snippets"),
    [
        (
            CONTRACT,
            "text",
            [
                ("3. Rent", "", "3.1 The monthly rent is 2,450 EUR plus VAT."),
                ("3. Rent", "", "It is due on the third working day."),
                (
                    "3. Rent",
                    "",
                    "3.2 The advance payment on service charges is 380 EUR a month, and they are settled by October.",
                ),
                (
                    "4. Security",
                    "",
                    "The Tenant pays a deposit of three net monthly rents before the keys are handed over.",
                ),
            ],
        ),
        (HOURS, "text", [("", "Loans", "Books: 28 days"), ("", "Loans", "Board games: 14 days")]),
        (
            MINUTES,
            "markdown",
            [
                ("", "", "Present: Ruth Abel (chair), Tomasz Nowak"),
                ("", "", "Excused: Peter Quist, who sends his regards."),
            ],
        ),
        (
            ATTENDANCE,
            "text",
            [
                ("", "", "Present: Ines Okafor, Tom Brandt."),
                ("", "", "The treasurer reported a surplus of 2,300 euros."),
            ],
        ),
        (
            MANUAL,
            "markdown",
            [
                ("Fuel", "", "Refuel in time."),
                ("Fuel", "", "Key deposit: 20 EUR, paid back."),
                ("Fuel", "", "Cost; Cloud: 5 EUR; Own: -"),
                ("Fuel", "", "Size; Cloud: 2 GB"),
                ("Fuel", "", "Cloud: free; Own: free"),
            ],
        ),
        (
            FLYER,
            "text",
            [("Open day 2026", "", "Stall with plants: Hettie"), ("Open day 2026", "", "Raffle: Marguerite")],
        ),
        (
            KENNELS,
            "text",
            [
                ("2. PRICES PER NIGHT", "", "Dog, small (to 10 kg): GBP 24.00"),
                ("2. PRICES PER NIGHT", "", "Dog, medium (10 to 25 kg): GBP 28.50"),
                ("2. PRICES PER NIGHT", "", "Dog, large (over 25 kg): GBP 33.00"),
                ("2. PRICES PER NIGHT", "", "Heat lamp (winter): free of charge"),
            ],
        ),
        (
            LOGBOOK,
            "text",
            [
                ("", "", "12/4 Brompton of Mrs Lund: new brake pads rear, gear cable replaced, 46 euros"),
                (
                    "",
                    "",
                    "14/4 Gazelle of the post office: spoke broken, wheel trued, waiting for the rim tape",
                ),
            ],
        ),
        (
            STEPS,
            "markdown",
            [
                ("Setup", "", "Install the package:"),
                ("Setup", "", "pip install tool"),
                ("Setup", "", "Create the tables."),
                ("Setup", "Labels are cut off", "Set the printer to 62 mm."),
            ],
        ),
        (
            LIDO,
            "text",
            [
                ("Tickets", "", "A day ticket is 7.80 for adults."),
                ("Tickets", "", "It is sold at the gate."),
                ("Lost property", "", "Keys and phones are kept at the kiosk for four weeks."),
                ("Lost property", "", "Then they go to the police."),
                ("The deep end", "", "The pool is 3.4 metres deep, and it is heated to 22 degrees."),
            ],
        ),
        (
            LEASE,
            "text",
            [
                ("1. Term", "", "1.1 The term is three years."),
                ("1. Term", "", "It begins in April."),
                ("2. Repairs", "", "2.1 The tenant repairs the inside."),
                ("2. Repairs", "", "2.2 It repaints the walls, too."),
            ],
        ),
        (
            STOCK,
            "text",
            [
                ("STOCK ON 30 JUNE", "", "Article: Rope 8 mm; Packing: 100 m reel; Stock: 4; Value: 21.00"),
                ("STOCK ON 30 JUNE", "", "Article: Shackle; Packing: each; Stock: 60"),
                ("STOCK ON 30 JUNE", "", "Total 21.00"),
                ("STOCK ON 30 JUNE", "", "Counted by Ann."),
                ("STOCK ON 30 JUNE", "", "The rates are as follows."),
                ("STOCK ON 30 JUNE", "", "Adults: 2.50; after six less"),
                ("STOCK ON 30 JUNE", "", "Children: 1.00; after six none"),
                ("STOCK ON 30 JUNE", "", "Members count for free."),
            ],
        ),
        (
            FIRST_AID,
            "text",
            [
                ("", "", "Eyes: Rinse at once."),
                ("", "Eyes", "Do not rub."),
                ("", "", "Skin: Wash for ten minutes."),
                ("", "Skin", "Use cold water."),
            ],
        ),
        (
            SUPPLIERS,
            "text",
            [
                (
                    "1. HOW TO ORDER",
                    "",
                    "Ring the desk before noon, or send the green form to the storeroom in good time.",
                ),
                ("1. HOW TO ORDER", "", "Nothing comes on Sundays."),
                ("1. HOW TO ORDER", "", "No phone calls after six"),
                ("1. HOW TO ORDER", "", "Door code from the guard"),
                (
                    "1. HOW TO ORDER",
                    "",
                    "Keys at the desk, ask for the list of names and sign it, please, before you go up",
                ),
                ("1. HOW TO ORDER", "", "Room 3 Ann Lee, has the lift key."),
                ("1. HOW TO ORDER", "Room 3 Ann Lee", "Ring twice."),
                ("1. HOW TO ORDER", "", "Room 5 Bo Ray, makes tea."),
                ("1. HOW TO ORDER", "Room 5 Bo Ray", "Ring once."),
                ("1. HOW TO ORDER", "", "no badge"),
                ("1. HOW TO ORDER", "", "interruption"),
                ("1. HOW TO ORDER", "", "no label"),
            ],
        ),
    ],
    ids=[
        "contract",
        "hours",
        "minutes",
        "attendance",
        "manual",
        "flyer",
        "prices",
        "logbook",
        "steps",
        "lido",
        "lease",
        "stock",
        "first aid",
        "suppliers",
    ],
)
def test_entries_are_snippets_with_their_heading_and_label(
    text: str, format: str, snippets: list[tuple[str, str, str]]
) -> None:
    assert [(s.heading, s.label, s.text) for s in split_snippets(text, format, "", False, None)] == snippets


@pytest.mark.parametrize(
    ("text", "captions"),
    [
        (STORAGE, ["", "", "Storage limits", "Storage limits", ""]),
        # A sentence that introduces a table is not a caption.
        (STORAGE.replace("Storage limits", "These are the limits of the laboratory:"), [""] * 5),
        (REPLY, ["", "", "", *["Le sam. 7 mars 2026 à 11:02, Bertrand Colas a écrit"] * 3]),
    ],
    ids=["table", "lead-in", "mail"],
)
def test_rows_and_quoted_mails_have_the_caption_above_them(text: str, captions: list[str]) -> None:
    snippets = list(split_snippets(text, "markdown", "", False, None))
    assert [snippet.caption for snippet in snippets] == captions
    assert not any(snippet.is_selectable for snippet in snippets if snippet.text.endswith("écrit :"))


def test_a_pronoun_after_the_number_of_a_clause_needs_its_subject() -> None:
    snippets = split_snippets(LEASE, "text", "", False, None)
    assert [snippet.text for snippet in snippets if snippet.needs_subject] == [
        "It begins in April.",
        "2.2 It repaints the walls, too.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        # Speakers, lines of a list, and wrapped lines are not titles.
        "ANN\nThe wind is rising fast.\n\nBEN\nLet us go in before it rains.\n\nANN\nThe door is locked.",
        "Ann Voss\nCaptain of the pilot boat\n\nBen Lund\nKeeper of the light\n\nIvo Hale\nCook of the station",
        "été\nWe saw the owls there.\n\névier\nIt leaks again today.\n\néchelle\nIt is in the old shed.",
        "The mill\nétait fermé en hiver.\n\nThe barn\névité par tous les gens.\n\nThe shed\nété comme hiver, il fuit.",
        "A boat of the\nClub is lent to members.\n\nThe fee for\nBoats is due in May.\n\nThe card\nThey hold is green.",
        # A date above an entry of a diary answers when.
        "\n\n".join(f"{day} March\nWe saw the owls near the old mill again." for day in ("Fri 7", "Sat 8", "Mon 10")),
    ],
)
def test_short_lines_that_are_not_titles_stay_in_their_paragraph(text: str) -> None:
    assert not any(block.kind == "heading" for block in parse_blocks(text, "text"))


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("- Put it there?\n- Jack agrees to it.\n- Ann was at the fair.\n", ["", "Put it there?", ""]),
        ("- Put it there?\n- Jack agrees:\n  - It is dry there.\n", ["", "Put it there?", ""]),
        ("- What to bring?\n  - Boots for rain\n  - A warm jacket\n", ["", "What to bring?", "What to bring?"]),
        (
            "Tom: Is it dear?\n\nJo: It is not. It never was.\n\nAl: The next topic is rain.\n",
            ["", "Tom: Is it dear?", "Tom: Is it dear?", ""],
        ),
        (
            "Tom: Is it dear?\nJo: It is not. It never was.\nAl: The next topic is rain.\n",
            ["", "Tom: Is it dear?", "Tom: Is it dear?", ""],
        ),
        ("**It is E-2. So?**\nEmpty it. Wait.\n\n**It is E-4.**\nRing.\n", ["", *["It is E-2. So?"] * 2, ""]),
        ("- **It rings. Who goes?** The porter.\n- Ann waits.\n", ["", "It rings. Who goes?", ""]),
        ("Is it dear?\n\nNo, it is not.\n\nIt never was.\n", ["", "Is it dear?", "Is it dear?"]),
    ],
    ids=["items", "items below the reply", "nested items", "speakers", "chat", "bold", "bold items", "paragraphs"],
)
def test_a_question_is_the_heading_of_its_reply(text: str, headings: list[str]) -> None:
    assert [snippet.heading for snippet in split_snippets(text, "markdown", "", False, None)] == headings


def test_yes_or_no_belongs_to_the_next_sentence() -> None:
    text = "# May I bring a dog?\n\nYes. Tell the box office first. It has water.\n\n- No. Cats stay at home.\n\nYes."
    snippets = split_snippets(text, "markdown", "", False, None)
    assert [snippet.text for snippet in snippets] == [
        "Yes. Tell the box office first.", "It has water.", "No. Cats stay at home.", "Yes."
    ]  # fmt: skip


def test_a_sentence_with_the_reason_needs_the_sentence_before() -> None:
    text = "At most 46 people may sleep here. The reason is the single staircase."
    assert [snippet.needs_previous for snippet in split_snippets(text, "markdown", "", False, None)] == [False, True]


@pytest.mark.parametrize(
    "text",
    [
        "The fee rises to\n5. It is due in May, and the board wrote about it to all of\nthe members.",
        "Note: the two  words are\nspread by a formatter, and the line goes  on here.",
    ],
)
def test_wrapped_sentences_are_not_entries(text: str) -> None:
    assert all(
        snippet.kind == "prose" and not snippet.heading for snippet in split_snippets(text, "text", "", False, None)
    )


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        ("", "4 Accounts. The surplus is 12,480. It\n  was 9,000 before.\n5 Rents. The board asks for 3 %. Carried."),
        (".", "4. Accounts. The surplus is 12,480. It was 9,000 before.\n\n5. Rents. The board asks for 3 %. Carried."),
    ],
)
def test_a_title_at_the_start_of_a_numbered_paragraph_labels_its_sentences(mark: str, text: str) -> None:
    assert [snippet.labeled_text for snippet in split_snippets(text, "text", "", False, None)] == [
        f"4{mark} Accounts: The surplus is 12,480.",
        f"4{mark} Accounts: It was 9,000 before.",
        f"5{mark} Rents: The board asks for 3 %.",
        f"5{mark} Rents: Carried.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "4.2 They are elected. None may serve twice.",
        "1. Open the valve. Wait ten minutes.",
        "4 Children pay half. None may enter.",
        "24 December. The office closes at noon.\n25 December. It is shut.",
        "3 Eggs. Beat them with sugar.",
        "10 Downing Street. The minister lives here.",
        "1 Mrs. Green lives here.\n2 Mr. Brown lives here.",
    ],
)
def test_a_numbered_sentence_is_no_title(text: str) -> None:
    assert not any(snippet.label for snippet in split_snippets(text, "text", "", False, None))


def test_a_short_paragraph_with_a_sentence_is_no_heading() -> None:
    text = "Where: Workshop\nWhen: Thursday\n\nSt John, trainer Ms Achterberg. 9 places"
    texts = [snippet.text for snippet in split_snippets(text, "text", "", False, None)]
    assert texts[-2:] == ["St John, trainer Ms Achterberg.", "9 places"]


def test_a_title_in_bold_labels_the_rest_of_its_item() -> None:
    text = (
        "1. **Number of boats**\n\n   At most 9 are let.\n\n   - Kayaks count.\n\n2. **Lunch**\n\n- **Tea**\n- Cake\n"
    )
    snippets = split_snippets(text, "markdown", "", False, None)
    assert [(snippet.label, snippet.text) for snippet in snippets] == [
        ("Number of boats", "At most 9 are let."),
        ("Number of boats", "Kayaks count."),
        ("", "Lunch"),
        ("", "Tea"),
        ("", "Cake"),
    ]


@pytest.mark.parametrize(
    ("heading", "version"),
    [
        ("v1.2.3-rc.1 (3 May 2026)", "1.2.3-rc.1"),
        ("2026.1.0.dev4+g1 - 2026-02-03", "2026.1.0.dev4+g1"),
        ("2026-02-03 (1.2.3)", "1.2.3"),
        ("3 May 2026 - Tern version 1.2", "1.2"),
        ("3 May 2026: 2.50", None),
        ("2026-05-03 Meeting 1.2", None),
        ("1.2 Rules", None),
    ],
)
def test_a_heading_of_a_release_has_a_version_and_a_date(heading: str, version: str | None) -> None:
    releases = [
        snippet.release for snippet in iter_release_snippets(heading, PassageBlock(heading, 0, len(heading), 0))
    ]
    assert [release.version for release in releases if release] == ([] if version is None else [version])


def test_a_long_heading_is_searched_in_linear_time() -> None:
    start = time.process_time()
    assert not list(iter_release_snippets("1.2." * 20_000, PassageBlock("", 0, 0, 0)))
    assert time.process_time() - start < 1


def test_a_long_word_is_searched_in_linear_time() -> None:
    start = time.process_time()
    assert not list(split_snippets("a" * 40_000, "text", "", False, None))
    assert time.process_time() - start < 1


def test_the_turns_of_a_paragraph_are_split_in_linear_time() -> None:
    start = time.process_time()
    assert len(list(split_snippets("Ann: hi?\n" * 3000, "text", "", False, None))) == 3000
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("code", "settings"),
    [
        (
            "# Changes need a review.\n\nsms:\n  cap: 45   # per day\n  senders: [A, B]\n  # nothing else is sent\n",
            ["Changes need a review.", "sms.cap: 45  # per day", "sms.senders: [A, B]", "sms: nothing else is sent"],
        ),
        (
            "web:\n  ports:\n    - 80\n    - 443\n  env:\n  - name: MODE\n    value: fast\n  - name: B\n    value: no",
            ["web.ports: 80, 443", "web.env: name: MODE; value: fast", "web.env: name: B; value: no"],
        ),
        (
            '{\n  "mail": {\n    "port": 25,\n    "to": [\n      "a",\n      "b"\n    ]\n  }\n}',
            ["mail.port: 25", 'mail.to: "a", "b"'],
        ),
        (
            "[[pump]]\nid = 1\nliters = 20\n\n[[pump]]\nid = 2\nliters = 30\n",
            ["pump: id = 1; liters = 20", "pump: id = 2; liters = 30"],
        ),
        (
            "[mail]\n; the port of the relay\nport=25\nhost = x.example ; internal\n",
            ["mail.port=25  # the port of the relay", "mail.host = x.example  # internal"],
        ),
        ("run: |\n  make all\n  make test\n", ["run: make all, make test"]),
        ("color: '#fff'\nurl: http://a.example/#top\n", ["color: '#fff'", "url: http://a.example/#top"]),
    ],
    ids=["yaml", "yaml-lists", "json", "toml", "ini", "yaml-text", "marks-in-values"],
)
def test_a_setting_is_a_snippet_with_its_keys_and_its_comment(code: str, settings: list[str]) -> None:
    snippets = list(split_settings(PassageBlock(code, 0, len(code), 0)))
    assert [snippet.text for snippet in snippets] == settings
    # The rest of a cut file has the keys before it.
    middle = code.index("\n", len(code) // 2) + 1
    rest = [
        snippet.text for snippet in split_settings(PassageBlock(code[middle:], 0, len(code) - middle, 0), code[:middle])
    ]
    assert rest == settings[len(settings) - len(rest) :]


def test_settings_are_split_in_linear_time() -> None:
    code = f'key: {"a " * 20000}\n{" " * 40000}x\n{"a: [" * 10000}\n{"- " * 20000}\n"{"x" * 40000}\n'
    assert list(split_settings(PassageBlock(code, 0, len(code), 0)))
