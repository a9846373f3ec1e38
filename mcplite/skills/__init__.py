"""Skills: instructions for a model, as folders of files that a server serves (SEP-2640).

``Server.add_skills`` serves them (:mod:`.server_skills`), and ``Client.skills`` lists and loads those of a server
(:mod:`.client_skills`). Both read the head of a skill's file with :mod:`.frontmatter`.
"""

__all__ = ["MOST_BYTES", "MOST_FILES", "SKILLS_EXTENSION", "SKILL_FILE"]

#: The identifier of the extension.
SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
#: The file with the instructions, at the root of each skill.
SKILL_FILE = "SKILL.md"
#: How many files a skill may have, and how many bytes all of them together.
MOST_FILES, MOST_BYTES = 512, 16 << 20
