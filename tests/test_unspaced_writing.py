"""Questions in writing without spaces: what is found, answered and refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

import kvstore
from kvstore.answering.refusals import NO_ANSWER
from kvstore.integrations.explore.ask_page import build_answer_data
from kvstore.integrations.store_tools import StoreTools
from kvstore.text.sentences import split_sentences
from kvstore_shell.cli import run

JAPANESE = {
    "富士山": "富士山は静岡県と山梨県にまたがる活火山である。標高は3776メートルで、日本で最も高い山である。"
    "最後の噴火は1707年の宝永大噴火で、江戸にも火山灰が降った。",
    "琵琶湖": "琵琶湖は滋賀県にある日本最大の湖である。面積は約670平方キロメートルで、県の面積の六分の一を占める。"
    "湖から流れ出る川は瀬田川だけである。",
    "図書館": "市立図書館は毎週月曜日が休館日です。開館時間は午前9時から午後7時までです。"
    "本は一人10冊まで2週間借りることができます。",
    "緑茶": "緑茶は茶葉を蒸して発酵を止めてから乾燥させたお茶である。煎茶を入れるお湯の温度は80度くらいがよい。",
    "新幹線": "東海道新幹線は1964年10月1日に東京と新大阪の間で開業した。最高速度は時速285キロメートルである。",
}
CHINESE = {
    "长城": "长城是中国古代的军事防御工程。明长城全长约8851公里。它于1987年被列入世界文化遗产。",
    "图书馆": "市图书馆每周一闭馆。开放时间为上午九点到下午六点。每人最多可以借十本书，借期为一个月。",
    "茶": "绿茶是不发酵的茶。泡绿茶的水温最好在八十度左右。龙井茶产自杭州西湖一带。",
    "长江": "长江发源于青藏高原的唐古拉山脉。它全长约6300公里，是亚洲最长的河流。",
    "高铁": "京沪高速铁路于2011年6月30日开通运营。列车最高时速为350公里。",
}
ANSWERED = [
    (JAPANESE, "富士山の標高は何メートルですか？", "富士山", "3776"),
    (JAPANESE, "琵琶湖から流れ出る川は何ですか？", "琵琶湖", "瀬田川"),
    (JAPANESE, "図書館の休館日はいつですか？", "図書館", "月曜日"),
    (JAPANESE, "煎茶を入れるお湯の温度は何度がよいですか？", "緑茶", "80度"),
    (JAPANESE, "東海道新幹線はいつ開業しましたか？", "新幹線", "1964年10月1日"),
    (CHINESE, "明长城有多长？", "长城", "8851"),
    (CHINESE, "图书馆什么时候闭馆？", "图书馆", "周一"),
    (CHINESE, "泡绿茶的水温多少最好？", "茶", "八十度"),
    (CHINESE, "长江发源于哪里？", "长江", "唐古拉"),
    (CHINESE, "京沪高速铁路是什么时候开通的？", "高铁", "2011"),
]
UNANSWERED = [
    (JAPANESE, "エッフェル塔の高さはどのくらいですか？"),
    (JAPANESE, "モーツァルトはどこで生まれましたか？"),
    (JAPANESE, "駐車場の料金はいくらですか？"),
    (JAPANESE, "光合成はどのように起こりますか？"),
    (JAPANESE, "サッカーのワールドカップで優勝した国はどこですか？"),
    (CHINESE, "埃菲尔铁塔有多高？"),
    (CHINESE, "莫扎特出生在哪里？"),
    (CHINESE, "停车费是多少？"),
    (CHINESE, "光合作用是如何发生的？"),
    (CHINESE, "谁赢得了世界杯足球赛？"),
]
Documents = Mapping[str, str]


@pytest.fixture
def make_filled_store(make_store: Callable[..., kvstore.Store]) -> Callable[[Documents], kvstore.Store]:
    def fill_store(documents: Documents) -> kvstore.Store:
        store = make_store()
        with store.transaction() as transaction:
            for key, text in documents.items():
                transaction.put(key, text)
        return store

    return fill_store


@pytest.mark.parametrize(("documents", "question", "key", "text"), ANSWERED)
def test_a_question_is_answered_with_exact_citations(
    make_filled_store: Callable[[Documents], kvstore.Store], documents: Documents, question: str, key: str, text: str
) -> None:
    answer = make_filled_store(documents).ask(question)
    assert not answer.abstained
    assert answer.confidence >= 0.5
    assert text in answer.text
    assert key in [citation.document for citation in answer.citations]
    for citation in answer.citations:
        cited = documents[citation.document].encode()[citation.start : citation.end].decode()
        # A sentence that does not name its subject follows the key of a document without a title.
        assert citation.text in (cited, f"{citation.document}: {cited}")


@pytest.mark.parametrize(("documents", "question"), UNANSWERED)
def test_a_question_about_something_else_is_refused(
    make_filled_store: Callable[[Documents], kvstore.Store], documents: Documents, question: str
) -> None:
    answer = make_filled_store(documents).ask(question)
    assert answer.abstained
    assert answer.text.startswith(NO_ANSWER)
    assert answer.confidence < 0.5


def test_a_character_and_a_part_of_a_run_are_found(make_filled_store: Callable[[Documents], kvstore.Store]) -> None:
    store = make_filled_store(JAPANESE)
    for phrase, key in (("茶", "緑茶"), ("幹", "新幹線"), ("噴火", "富士山"), ('"休館日"', "図書館")):
        assert [hit.document for hit in store.search(phrase, using="lexical")] == [key]
    for query, key in (("茶", "緑茶"), ("新大阪", "新幹線"), ("瀬田*", "琵琶湖")):
        rows = store.execute("SELECT DISTINCT document FROM chunks WHERE text MATCH ?", [query]).fetchall()
        assert rows == [(key,)]


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย", "เมืองหลวงของไทย"),
        ("ວຽງຈັນເປັນເມືອງຫຼວງຂອງລາວ", "ເມືອງຫຼວງ"),
        ("ភ្នំពេញគឺជារាជធានីនៃប្រទេសកម្ពុជា", "រាជធានី"),
    ],
)
def test_a_part_of_a_sentence_is_found_in_other_writing_without_spaces(
    make_filled_store: Callable[[Documents], kvstore.Store], text: str, question: str
) -> None:
    store = make_filled_store({"capital": text, "tea": "Tea is made from leaves."})
    assert [hit.document for hit in store.search(question, using="lexical")] == ["capital"]


def test_sentences_end_at_the_marks_of_chinese_and_japanese() -> None:
    def list_sentences(text: str) -> list[str]:
        return [text[start:end] for start, end in split_sentences(text)]

    assert list_sentences("它建于1958年！真的吗？是的。") == ["它建于1958年！", "真的吗？", "是的。"]
    assert list_sentences("他很高（真的！）。她也是。") == ["他很高（真的！）。", "她也是。"]
    assert list_sentences("他（真的！）很高。她也是。") == ["他（真的！）很高。", "她也是。"]
    assert list_sentences("「本当ですか？」と聞いた。次の文。") == ["「本当ですか？」と聞いた。", "次の文。"]
    assert list_sentences("「本当ですか？」彼は聞いた。") == ["「本当ですか？」", "彼は聞いた。"]


def test_an_answer_that_nothing_answers_has_abstained_in_every_interface(
    make_filled_store: Callable[[Documents], kvstore.Store], capsys: pytest.CaptureFixture[str]
) -> None:
    store = make_filled_store({})
    # A heading is found, and is no sentence to quote.
    store.put("office", "# Opening hours of the Bergen harbor office\n", format="markdown")
    question = "What are the opening hours of the Bergen harbor office?"
    answer = store.ask(question)
    assert answer.text.startswith(NO_ANSWER)
    assert (answer.abstained, answer.confidence) == (True, 0.0)
    assert run(["ask", str(store.path), question, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["abstained"], row["confidence"]) == (True, 0.0)
    assert "(outcome: nothing)" in StoreTools(store).call("ask", {"question": question})
    page = build_answer_data(store, answer)
    assert (page["abstained"], page["outcome"]) == (True, "nothing")


def test_titles_in_title_marks_are_names(store: kvstore.Store) -> None:
    store.put("曹雪芹", "曹雪芹写了《红楼梦》。他说：「是的，我写了很多年。」")
    store.put("芥川", "芥川は『羅生門』を書いた。「鼻と芋」もある。")
    names = {name for (name,) in store.execute("SELECT name FROM entities").fetchall()}
    assert names == {"红楼梦", "羅生門", "鼻と芋"}
    answer = store.ask("谁写了《西游记》？")
    assert answer.abstained and "No document mentions 西游记" in answer.text
    assert "曹雪芹" in store.ask("谁写了《红楼梦》？").text


def test_a_quoted_sentence_has_an_ellipsis_only_if_it_is_cut(
    make_filled_store: Callable[[Documents], kvstore.Store],
) -> None:
    # Many short words: more than the limit in words, but not in characters.
    short = "灯塔由阿达" + "甲b" * 61 + "建于一九八八年。"
    long = "码头由博建于" + "甲" * 200 + "一九〇二年。"
    store = make_filled_store({"灯塔": short, "码头": long})
    store.set("least_confidence", 0)
    assert store.ask("灯塔建于何时？").text.startswith(f"{short} [1]")
    assert f"{long[:180]}… [" in store.ask("码头由谁建？").text
