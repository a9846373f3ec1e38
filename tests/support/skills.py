"""Skills from both sides: folders with them, and what is in the files."""

import hashlib

TRIP = "---\nname: plan-a-trip\ndescription: Plans a trip.\nmetadata:\n  version: '2'\n---\n\nAsk for the dates first.\n"
HEAD = {"name": "plan-a-trip", "description": "Plans a trip.", "metadata": {"version": "2"}}
URI = "skill://plan-a-trip/SKILL.md"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def write(folder, path, content):
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def skill(name, more=""):
    return f"---\nname: {name}\ndescription: About {name}.\n---\n{more}"


def write_skills(root):
    write(root, "plan-a-trip/SKILL.md", TRIP)
    write(root, "plan-a-trip/references/Trains & buses.md", "Night trains.")
    write(root, "plan-a-trip/map.png", b"\x89PNG\r\n")
    write(root, "plan-a-trip/.env", "SECRET=1")
    write(root, "team/billing/refunds/SKILL.md", skill("refunds"))
    write(root, "notes.txt", "belongs to no skill")
    return root
