"""Languages of texts: which they are written in, and the stop words and stems of each."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice
from types import ModuleType

from graph_retrievers.errors import InvalidArgumentError, shown
from graph_retrievers.graph.words import normal, word_pattern

# How many texts are read, and how many characters of each.
_TEXTS, _CHARACTERS = 1000, 1000
# The least share of the words that a script has, and the share that a language exceeds of the texts with a known language.
_LEAST, _MAJORITY = 0.02, 0.5
# The least number of distinct common words of a language in all texts.
_FEWEST = 2


class _Language:
    """A language: its English name, its script, common words that tell it from others, and whether there is a stemmer."""

    def __init__(self, name: str, script: str, words: str = "", *, stemmer: bool = True) -> None:
        self.name, self.script, self.words, self.stemmer = name, script, frozenset(words.split()), stemmer


# Common words of each language, without those that only look alike in others. They are also its stop words where bm25s has none.
_LANGUAGES = {
    "en": _Language("english", "latin", "the of and to a in is was that for it with as an on be at by had not are but or this"),
    "de": _Language("german", "latin", "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es"),
    "nl": _Language("dutch", "latin", "de van het een en in is dat op te zijn met voor die niet aan er om ook als dan maar bij"),
    "fr": _Language("french", "latin", "de la le et les des en un du une que est pour qui dans par sur au pas ce il sont avec aux"),
    "es": _Language("spanish", "latin", "de la que el en y los se del las un por con no una para su es al lo como más pero sus"),
    "pt": _Language("portuguese", "latin", "de que e do da em um para com não uma os no se na por mais as dos como mas ao das à"),
    "it": _Language("italian", "latin", "di che è e la il un in per del non una le della con si dei nel da alla gli più sono al"),
    "ca": _Language("catalan", "latin", "de la que i el en a les els un per amb del una al és no dels es o va són com més pel"),
    "ro": _Language("romanian", "latin", "de și în a la cu pe o din este nu un să care se mai pentru că prin sunt ale sau fost"),
    "sv": _Language("swedish", "latin", "och i att en som är av på för med den till det om har de inte var ett från eller så kan"),
    "da": _Language("danish", "latin", "og i at en af er på til det den for med som der de ikke et var har blev af fra kan mange"),
    "no": _Language("norwegian", "latin", "og i å en er av på til det som for med den at har de ikke et var fra ble om kan etter"),
    "fi": _Language("finnish", "latin", "ja on ei se että oli hän joka myös mutta ovat kun niin tai kuin mukaan jo sen oli siitä"),
    "et": _Language("estonian", "latin", "ja on ei see et ta oli kui ka mis või aga kes nii ning oma selle pärast kuid välja olid"),
    "hu": _Language("hungarian", "latin", "a az és hogy nem is egy volt már el mint vagy ha ezt azt lesz még két nagy amely"),
    "tr": _Language("turkish", "latin", "ve bir bu da de için ile çok olarak daha olan gibi kadar sonra ne en ki var her ise oldu"),
    "pl": _Language("polish", "latin", "w i na z się nie do że jest to jak po o od przez dla był ale są oraz jego przy ze tym"),
    "cs": _Language("czech", "latin", "a v se na je že s z do o to i jako ve pro za by jeho po od byl při které jsou"),
    "lt": _Language("lithuanian", "latin", "ir yra kad į iš su buvo kaip tai ne bet ar nuo jo apie tik dar už metų jie po savo"),
    "eu": _Language("basque", "latin", "eta da ez bat du zen dira izan zuen ere baina edo dute hau den egin zituen beste baino"),
    "ga": _Language("irish", "latin", "agus an na i ar is go a bhí ag le sé tá do den nach chun leis ach seo mar bhfuil ón sa"),
    "id": _Language("indonesian", "latin", "yang dan di untuk dengan dari pada ini itu adalah tidak dalam akan oleh ke sebagai"),
    "eo": _Language("esperanto", "latin", "la kaj en de estas al ke li ne por kun sed el pri estis aŭ unu tiu ĝi oni kiu ili plej"),
    "ru": _Language("russian", "cyrillic", "и в на не что с по как к из у за от он то это его для был она также при или все но"),
    "uk": _Language("ukrainian", "cyrillic", "і в на що не з та до у за від як це його для він який й або про був", stemmer=False),
    "bg": _Language("bulgarian", "cyrillic", "и на да се в от за е с не по като са че през му до той или във бил", stemmer=False),
    "sr": _Language("serbian", "cyrillic", "и је у на се да су за од са као који не то из што био али или по његов"),
    "ar": _Language("arabic", "arabic", "في من على إلى أن هذا هذه التي الذي عن مع كان ما لا أو هو وفي ومن كانت بعد قد"),
    "fa": _Language("persian", "arabic", "در به از که این را با است برای آن یک خود تا کرد بر هم نیز شد می های ها"),
    "hi": _Language("hindi", "devanagari", "के में की है और से का को पर यह था एक भी ने हैं कि इस लिए जो तो कर"),
    "ne": _Language("nepali", "devanagari", "छ र को मा हो यो पनि छन् भएको लागि गर्न थियो तर एक वा गरेको हुन् अनि तथा"),
    "el": _Language("greek", "greek", "και το να του η της με που την από για είναι των ο οι στο τα θα σε δεν τον"),
    "hy": _Language("armenian", "armenian", "և է են որ մեջ համար այս հետ նաև այն ու իր էր կամ"),
    "ta": _Language("tamil", "tamil", "ஒரு என்று மற்றும் இந்த இது அந்த அது என அவர்"),
    "he": _Language("hebrew", "hebrew", "של את על לא הוא זה עם כי או גם היא אל אם אבל היה", stemmer=False),
    "yi": _Language("yiddish", "hebrew", "איז און די אין פון צו דער דאס מיט נישט ער האט"),
    "zh": _Language("chinese", "han", stemmer=False),
    "ja": _Language("japanese", "kana", stemmer=False),
    "ko": _Language("korean", "hangul", stemmer=False),
    "th": _Language("thai", "thai", stemmer=False),
}  # fmt: skip
_BY_NAME = {language.name: code for code, language in _LANGUAGES.items()}
# First and last letters of scripts, ascending.
_SCRIPTS = (
    ("A", "\u024f", "latin"), ("\u0370", "\u03ff", "greek"), ("\u0400", "\u052f", "cyrillic"), ("\u0531", "\u0587", "armenian"),
    ("\u05d0", "\u05f4", "hebrew"), ("\u0620", "\u06ff", "arabic"), ("\u0904", "\u097f", "devanagari"),
    ("\u0b85", "\u0bcd", "tamil"), ("\u0e01", "\u0e4e", "thai"), ("\u1e00", "\u1eff", "latin"), ("\u1f00", "\u1fff", "greek"),
    ("\u3041", "\u30ff", "kana"), ("\u3400", "\u9fff", "han"), ("\uac00", "\ud7a3", "hangul"),
)  # fmt: skip


def script_of(word: str) -> str:
    """Return the script of the first letter of a word; "" for one that no language here has.

    >>> script_of("loom"), script_of("\u0441\u0442\u0430\u043d"), script_of("7")
    ('latin', 'cyrillic', '')
    """
    letter = word[:1]
    return next((name for first, last, name in _SCRIPTS if first <= letter <= last), "") if letter.isalpha() else ""


def language_code(name: str, *, argument: str = "language") -> str:
    """Return the codes of languages that are given by code or English name, joined by "+".

    >>> language_code("German"), language_code("en+ru"), language_code("")
    ('de', 'en+ru', '')
    """
    if not isinstance(name, str):
        raise InvalidArgumentError(f"{argument} is {shown(name)}; expected a code such as 'en'.")
    codes = [_BY_NAME.get(part.strip().lower(), part.strip().lower()) for part in name.split("+") if part.strip()]
    unknown = [code for code in codes if code not in _LANGUAGES]
    scripts = Counter(_LANGUAGES[code].script for code in codes if code not in unknown)
    if unknown:
        raise InvalidArgumentError(
            f"{argument} is {shown(name)}; expected a code such as 'en', several of different scripts such as 'en+ru', or '' for "
            f"words as they are. Known: {', '.join(_LANGUAGES)}."
        )
    if max(scripts.values(), default=0) > 1:
        raise InvalidArgumentError(f"{argument} is {shown(name)}, two languages of one script; name the one that most texts have.")
    return "+".join(codes)


def has_stems(code: str) -> bool:
    """Return whether there is a stemmer for the language of a code."""
    return _LANGUAGES[code].stemmer


def inflected(language: str) -> str:
    """Return in which of some languages names have several forms: all with a stemmer but English ("Windows" is not "Window")."""
    return "+".join(code for code in filter(None, language.split("+")) if code != "en" and has_stems(code))


def language_name(code: str) -> str:
    """Return the English name of a language by its code.

    >>> language_name("de")
    'German'
    """
    return _LANGUAGES[code].name.title()


def main_languages(texts: Iterable[str]) -> str:
    """Return the languages that most texts are written in, one for each script, as codes joined by "+".

    Common words of the languages are counted in the first 1,000 characters of 1,000 texts that are spread over the corpus. A text
    has the language of which it has most. A language counts if more than half of the texts of its script have it; without such a
    majority the script has none, and its words are used as they are. If no text is decided, as in lists of names, or only by one
    word, the script has the first of its languages here: English, Russian, Arabic, Hindi, Hebrew. A script with less than 2 % of
    the words does not count.

    >>> main_languages(["Der Webstuhl ist eine Maschine.", "Die Karten sind aus Pappe."]), main_languages(["Ada", "Babbage"])
    ('de', 'en')
    """
    texts = texts if isinstance(texts, Sequence) else list(texts)
    step = max(1, len(texts) // _TEXTS)
    script_counts, votes, vocabulary = Counter[str](), Counter[str](), set[str]()
    for text in islice(texts, 0, None, step):
        text = normal(text[:_CHARACTERS]).casefold()
        frequencies = Counter(word_pattern(text).findall(text))
        scripts = Counter[str]()
        for word, count in frequencies.items():
            scripts[script_of(word)] += count
        script_counts += scripts
        vocabulary.update(frequencies)
        for script in filter(None, scripts):
            common_words = {code: frequencies.keys() & _LANGUAGES[code].words for code in _of_script(script)}
            counts = {code: sum(map(frequencies.__getitem__, common)) for code, common in common_words.items()}
            best = sorted(counts, key=lambda code: -counts[code])[:2]
            if best and counts[best[0]] > (counts[best[1]] if len(best) > 1 else -1):
                votes[best[0]] += 1
    total, languages = sum(script_counts.values()), list[str]()
    # Japanese is written with Han characters too.
    if script_counts["kana"] > _LEAST * (script_counts["kana"] + script_counts["han"]):
        script_counts["kana"] += script_counts.pop("han", 0)
    # One common word alone may be a name, or a word of another language.
    votes = Counter({code: n for code, n in votes.items() if len(vocabulary & _LANGUAGES[code].words) >= _FEWEST})
    for script, count in sorted(script_counts.items(), key=lambda pair: (-pair[1], pair[0])):
        codes = _of_script(script)
        if not codes or count < _LEAST * total:
            continue
        total_votes = sum(votes[code] for code in codes)
        if not total_votes:
            # The first of a script is the one that most people write.
            languages.append(codes[0])
        else:
            languages += [code for code in codes if votes[code] > _MAJORITY * total_votes]
    return "+".join(languages) if total else "en"


@cache
def _of_script(script: str) -> tuple[str, ...]:
    return tuple(code for code, language in _LANGUAGES.items() if language.script == script)


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of languages (codes joined by "+") in folded case; "en_plus" is the longer list of English.

    They are those of bm25s, or the common words of this module for languages that bm25s does not have.

    >>> "the" in stop_words("en"), "der" in stop_words("de"), "ja" in stop_words("fi")
    (True, True, True)
    """
    words = set[str]()
    for code in filter(None, language.split("+")):
        entry = _LANGUAGES["en" if code == "en_plus" else code]
        name = code if entry.name == "english" else entry.name
        word_list = getattr(_lists(), f"STOPWORDS_{name.upper()}", entry.words) if entry.words else ()
        words.update(word.casefold() for word in map(normal, word_list))
        # The lists of English are made for words of two letters and more.
        words |= {"i"} if entry.name == "english" else set()
    return frozenset(words)


def _lists() -> ModuleType:
    from bm25s import stopwords

    # bm25s sets its logger to DEBUG when it is imported.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return stopwords


@cache
def stem_of(language: str) -> Callable[[str], str]:
    """Return the function that stems a word in folded case, by the stemmer of the language that is written in its script.

    The stemmers are those of Snowball. Words with digits, and of scripts whose language has none, stay as they are.

    >>> [stem_of("en+ru")(word) for word in ("contracts", "\u0441\u0442\u0430\u043d\u043a\u0438", "1990s")]
    ['contract', '\u0441\u0442\u0430\u043d\u043a', '1990s']
    """
    from Stemmer import Stemmer

    # Without the stemmer's own cache: the caller keeps stems, and asks for each word once.
    stemmers = {
        _LANGUAGES[code].script: Stemmer(_LANGUAGES[code].name, 0)
        for code in filter(None, language.split("+"))
        if _LANGUAGES[code].stemmer
    }

    def stem(word: str) -> str:
        stemmer = stemmers.get(script_of(word))
        return stemmer.stemWord(word) if stemmer is not None and not any(map(str.isdigit, word)) else word

    return stem
