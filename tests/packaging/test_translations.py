"""The Chinese pages have the commands and files of the English ones, to the letter, and their headings."""

import re
from pathlib import Path

import pytest

from page_commands import blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "docs/tutorial/tour.md": "docs/zh/tour.md",
    "docs/tutorial/operator.md": "docs/zh/operator.md",
}


@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_are_the_same_in_both_languages(page):
    english, chinese = blocks(ROOT / page), blocks(ROOT / PAGES[page])
    assert len(english) > 3
    assert chinese == english


@pytest.mark.parametrize("page", PAGES)
def test_both_languages_have_the_same_sections(page):
    def levels(path):
        prose = re.sub(r"^```.*?^```", "", (ROOT / path).read_text(), flags=re.DOTALL | re.MULTILINE)
        return [len(marks) for marks in re.findall(r"^(#+) ", prose, re.MULTILINE)]

    assert levels(PAGES[page]) == levels(page)


def test_the_chinese_readme_has_commands_of_the_english_one():
    def commands(path):
        found = re.findall(r"^\$ (.*)$", (ROOT / path).read_text(), re.MULTILINE)
        return {line.partition("  #")[0].rstrip() for line in found}

    assert len(commands("docs/zh/README.md")) > 5
    assert commands("docs/zh/README.md") <= commands("README.md")
