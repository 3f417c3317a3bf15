"""Word and phrase lists of the checks, in lower case with straight quotes."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


STOPWORDS = word_set(
    """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing down during each few for from further get give had has have having he her here hers
    him his how i if in into is it its just let like make me more most my no nor not now of off on once one only or
    other our out over own please same she should so some such tell than that the their them then there these they
    this those through to too two under until up use using very was we were what when where which while who whom why
    will with would write you your i'm it's don't can't
    """
)

REFUSALS = (
    " i can't ", " i cannot ", " i can not ", " i won't ", " i will not ", " i'm not able to ", " i am not able to ",
    " i'm unable to ", " i am unable to ", " unable to assist", " unable to help", " unable to provide",
    " unable to fulfill", " i'm not going to ", " i am not going to ", " i must decline", " i have to decline",
    " i decline to ", " i refuse to", " not comfortable ", " i do not feel comfortable", " i don't feel comfortable",
    " can't assist", " cannot assist", " can't help", " cannot help", " can't fulfill", " cannot fulfill",
    " can't provide", " cannot provide", " not able to assist", " not able to help", " not able to provide",
    " i don't produce ", " i don't generate ", " i do not generate ", " i don't engage", " i do not engage",
    " i'd rather not", " i would rather not", " not appropriate for me", " i'm not programmed to",
    " against my guidelines", " i'm not supposed to", " i am not supposed to", " i don't condone", " i do not condone",
    " i'm just an ai, i can", " cannot comply", " can't comply", " it would be inappropriate", " i strongly discourage",
    " not condone", " not promote ", " not appropriate to", " not ethical", " never the answer", " i strongly condemn",
    " i must clarify", " i would not ", " against my programming", " challenge the assumption", " not capable of ",
    " it's not accurate or", " it is not accurate or", " i don't think it's appropriate", " i will have to decline",
)  # fmt: skip

COMPLIANCE = (
    " sure", " certainly", " of course", " absolutely", " here is ", " here's ", " here are ", " here you go",
    " step 1", " 1. ", " title:",
)  # fmt: skip

APOLOGIES = (
    " i'm sorry", " i am sorry", " sorry,", " sorry for ", " sorry about ", " apologies", " i apologize",
    " i apologise", " my apologies",
)  # fmt: skip

HEDGES = word_set(
    """
    maybe perhaps possibly probably likely unlikely might could seem seems seemed appears apparently presumably
    roughly somewhat arguably supposedly generally usually typically often sometimes
    """
)

CLOSING_OFFERS = (
    "let me know if", "feel free to ask", "feel free to reach", "i hope this helps", "hope this helps",
    "if you have any other questions", "if you have any further questions", "if you have any questions",
    "if you need any", "if you need further", "if you need more", "if you'd like", "if you would like",
    "happy to help", "would you like me to", "is there anything else", "please let me know", "don't hesitate to",
)  # fmt: skip

CONNECTIVES = word_set(
    """
    however therefore because although moreover furthermore additionally consequently instead meanwhile thus hence
    whereas nevertheless nonetheless overall finally similarly since unless despite
    """
)

EXAMPLES = (
    " for example", " for instance", " such as ", " e.g.", " an example", " example:", " examples:", " consider a ",
    " imagine ",
)  # fmt: skip

CONCERNS = (
    " it is important to remember", " it's important to remember", " it is important to prioritize",
    " it's important to prioritize", " unethical", " morally", " immoral", " inappropriate", " ethical ",
    " it is never okay", " is never acceptable", " promote respect", " i urge you", " i strongly advise",
    " i encourage you to", " illegal and ", " harmful and ", " it is crucial to", " responsible and ",
)  # fmt: skip

PROFANITY = word_set(
    """
    fuck fucking fucked fucker motherfucker shit shitty bullshit asshole bitch bitches cunt bastard dick cock pussy
    whore slut wanker twat dickhead arse jackass
    """
)

IMPERATIVES = word_set(
    """
    add adjust apply arrange ask avoid be become begin bring build buy calculate call change check choose click close
    collect combine compare complete compute connect consider convert cook copy count cover create cut decide define
    describe design determine develop discuss do draw enjoy ensure enter evaluate explain explore find finish fold
    follow gather get give go help identify imagine implement include increase insert install introduce invite join
    keep learn leave let list listen look maintain make measure mix move note offer open organize pick place plan play
    practice prepare press provide pull push put read reduce remember remove repeat replace research rest return review
    run save say search select send set share show sign simplify solve start stay stir stop study summarize take talk
    tell test think train translate try turn type understand update use verify visit wait walk wash watch write
    """
)
