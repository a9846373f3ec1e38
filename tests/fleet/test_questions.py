"""Questions in the middle of a call: each answer finds its handler on any worker."""

from tests.fleet import scenarios
from tests.support.forks import POSIX_ONLY

pytestmark = POSIX_ONLY


def test_each_question_is_answered_and_each_effect_happens_once(fleet):
    print(scenarios.questions(fleet, 40))
