"""A page of the reference for each public header, from the comments that stand in it.

The headers are written to be read: a head, sections `// ---- name ----`, a comment before the declarations
that it is about. A page has the header's order: head, then each class or section with its comments as text,
and its declarations as code, without bodies and private members. Why this is not Doxygen:
docs/decisions/reference-from-the-headers.md.
"""

import os
import re

import pages

SECTION = re.compile(r"^// ----\s*(.*?)\s*(----)?$")
DEFINE = re.compile(r"^#define (\w+)\(([^)]*)\)\s*(.*)$")
CLASS = re.compile(r"^(?:template <.*> )?class (?:\[\[nodiscard\]\] )?(\w+)\b[^;(]*\{")
NAMED = re.compile(r"^(?:struct|enum class|enum) (\w+)[^;(]*\{")
PAGE = re.compile(r"docs/[\w/-]+\.md")
FUNCTIONS = "## Functions\n"
FUNCTION = re.compile(
    r"^(?:using (?=\w+ =)|(?!//|using )[^(]*?\b(?=operator|\w+\())(operator ?[^\w\s(]+|\w+)", re.M
)
# Of a class, defined after it.
MEMBER = re.compile(r"^(template <[^>]*> )?[\w<>&* ]+ \w+::\w+\(")
# What a user does not call.
HIDDEN = re.compile(
    r"^(using namespace|namespace \w+ \{|class \w+;|struct \w+;|friend |\} *// namespace|"
    r"template <> struct std::|namespace detail|~)"
)


def headers():
    folder = pages.REPOSITORY / "include" / "lathe"
    return sorted(
        str(p.relative_to(pages.REPOSITORY)) for p in folder.rglob("*.hpp") if "detail" not in p.parts
    )


def place(path):
    return "reference/" + path.removeprefix("include/lathe/").removesuffix(".hpp") + ".md"


def expanded(lines):
    """The lines with the header's own macros written out."""
    macros, out, index = {}, [], 0
    while index < len(lines):
        line = lines[index]
        index += 1
        define = DEFINE.match(line)
        if define:
            body = [define[3].rstrip("\\").strip()]
            while lines[index - 1].endswith("\\"):
                body.append(lines[index].rstrip("\\").rstrip())
                index += 1
            macros[define[1]] = ([a.strip() for a in define[2].split(",")], [b for b in body if b])
            continue
        used = re.findall(r"(\w+)\(([^()]*)\)", line) if line.split("(")[0] in macros else []
        for name, arguments in used:
            out += expansion(*macros[name], [a.strip() for a in arguments.split(",")])
        if not used:
            out.append(line)
    return out


def expansion(parameters, body, arguments):
    out = []
    for line in body:
        for parameter, argument in zip(parameters, arguments):
            line = re.sub(rf"\b{parameter}\b(##)?", argument.replace("\\", ""), line)
        out.append(line)
    return out


def ends(code):
    """Whether the code is whole: its brackets are closed, and a ; or } stands at the end."""
    bare = re.sub(r"//.*|\"[^\"]*\"", "", code).strip()
    return all(bare.count(a) == bare.count(b) for a, b in ("()", "{}")) and bare.endswith((";", "}", ":"))


def without_body(code):
    """A function as it is declared."""
    if NAMED.match(code.strip()) or CLASS.match(code.strip()):
        return code
    depth = 0
    for at, character in enumerate(code):
        depth += (character == "(") - (character == ")")
        is_list = character == ":" and code[:at].rstrip().endswith(")")  # of a constructor's members
        if depth == 0 and (character == "{" or is_list):
            remark = re.search(r"//[^\n]*$", code) if "\n" not in code.strip() else None
            return re.sub(r"\binline ", "", code[:at].rstrip()) + ";" + (f"  {remark[0]}" if remark else "")
    return code


def items(lines):
    """(comment lines, code) of each declaration; ("section", title); None for an empty line."""
    comment, code, marker = [], "", ""
    index = 0
    while index < len(lines):
        line = lines[index]
        index += 1
        bare = line.strip()
        section = SECTION.match(bare)
        if code == "" and section:
            title = section[1]
            while not section[2] and index < len(lines) and lines[index].strip().startswith("//"):
                more = lines[index].strip().lstrip("/ ")
                index += 1
                title += " " + more.removesuffix("----").rstrip()
                if more.endswith("----"):
                    break
            comment = []
            yield "section", title
        elif code == "" and bare.startswith("//"):
            kind = "///" if bare.startswith("///") else "//"
            if comment and kind != marker:
                comment.append("")  # from a remark on what follows to the comment of the first of it
            marker = kind
            comment.append(re.sub(r"^///? ?", "", bare))
        elif code == "" and bare.startswith("#"):
            comment = []
        elif bare == "" and code == "":
            comment = []
            yield None
        else:
            code += line + "\n"
            if ends(code):
                yield comment, code.rstrip("\n")
                comment, code = [], ""


def dedented(code):
    lines = code.splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] if line[:indent].isspace() or not indent else line for line in lines)


def prose(lines):
    """Comment lines as Markdown: what is indented is code."""
    out, code = [], []

    def close():
        if code:
            out.extend(["", "```cpp", *(line[2:] for line in code), "```", ""])
            code.clear()

    for line in lines:
        if line.startswith("  "):
            code.append(line)
        else:
            close()
            parts = line.split("`")
            parts[::2] = [
                p.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*") for p in parts[::2]
            ]
            out.append("`".join(parts))
    close()
    return "\n".join(out).strip() + "\n"


def title_of(section):
    """A short heading, and the rest as text."""
    name, found, rest = re.match(r"^([^;:(]*)([;:]?)(.*)$", section).groups()
    return name.strip()[:1].upper() + name.strip()[1:], rest.strip() if found else (rest or "").strip()


class Page:
    def __init__(self):
        self.out = []
        self.code = []
        self.in_class = False  # under the heading of one, at the top level

    def text(self, line):
        self.flush()
        self.out.append(line)

    def flush(self):
        if self.code:
            self.out += ["```cpp", *self.code, "```", ""]
            self.code = []

    def declarations(self, lines, level):
        for item in items(lines):
            if item is None:
                self.flush()
                continue
            if item[0] == "section":
                name, rest = title_of(item[1])
                self.in_class = self.in_class and level > 2
                self.text(f"{'#' * level} {name}\n")
                if rest:
                    self.text(prose([rest[:1].upper() + rest[1:] + "."]))
                continue
            self.declaration(*item, level)

    def declaration(self, comment, code, level):
        first = code.strip()
        if HIDDEN.match(first) or MEMBER.match(first):
            return
        named, klass = NAMED.match(first), CLASS.match(first)
        if level == 2 and (named or klass):
            self.text(f"## {(named or klass)[1]}\n")
            self.in_class = True
        elif level == 2 and self.in_class:
            self.text(FUNCTIONS)
            self.in_class = False
        if comment:
            self.text(prose(comment))
        if klass and "\n" in first:
            if " : " in klass[0]:
                self.text(f"`{klass[0].removesuffix('{').strip()}`\n")
            self.members(first, level + 1)
            return
        if "LATHE_" in first:
            return
        self.code += dedented(without_body(code)).replace("///<", "//").splitlines()
        if named:
            self.flush()

    def members(self, code, level):
        lines = code.splitlines()[1:-1]
        public = code.lstrip().startswith("struct")
        kept = []
        for line in lines:
            if line.strip() in ("public:", "private:"):
                public = line.strip() == "public:"
            elif public:
                kept.append(line)
        self.declarations(kept, level)
        self.flush()


def split_head(lines):
    end = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    return [re.sub(r"^// ?", "", line) for line in lines[:end]], lines[end:]


def page(path):
    head, rest = split_head((pages.REPOSITORY / path).read_text().splitlines())
    out = Page()
    name = path.removeprefix("include/")
    out.text(f"# {name}\n")
    out.text(prose(head))
    out.text(f"`#include <{name}>`: the file is {path}.\n")
    out.declarations(without_detail(expanded(rest)), 2)
    out.flush()
    up = os.path.relpath(".", os.path.dirname(path))
    return pages.outside_blocks(
        with_names("\n".join(out.out)), lambda line, _: PAGE.sub(lambda m: f"[{m[0]}]({up}/{m[0]})", line)
    )


def with_names(page):
    """Headings of free functions say which these are."""
    sections = re.split(r"^(?=## )", page, flags=re.M)
    for index, section in enumerate(sections):
        if section.startswith(FUNCTIONS):
            code = "".join(block.text for block in pages.blocks(section))
            names = list(dict.fromkeys(name.replace(" ", "") for name in FUNCTION.findall(code)))
            heading = ", ".join(names[:3]) + (" and others" if len(names) > 3 else "")
            sections[index] = f"## {heading}\n" + section.removeprefix(FUNCTIONS)
    return "".join(sections)


def without_detail(lines):
    """Leaves out namespaces detail, and the braces of the others."""
    out, inside = [], False
    for line in lines:
        if re.match(r"^namespace detail \{", line):
            inside = "}" not in line
        elif inside:
            inside = not line.startswith("}")
        elif not re.match(r"^(namespace [\w:]+ \{|\}  ?// namespace)", line):
            out.append(line)
    return out


def index():
    lines = [
        "# Reference\n",
        "One page a header, made from the comments in it. `lathe/lathe.hpp` includes all but the optional",
        "ones: `profile.hpp`, `program_file.hpp`, `export.hpp` and `onnx.hpp`.\n",
        "| header | |",
        "|---|---|",
    ]
    for path in headers():
        head, _ = split_head((pages.REPOSITORY / path).read_text().splitlines())
        first = re.split(r"(?<=[.;])\s", " ".join(head).replace("<", "&lt;").replace("|", "\\|"))[0].rstrip(
            ";"
        )
        lines.append(
            f"| [{path.removeprefix('include/lathe/')}]({place(path).removeprefix('reference/')}) | {first} |"
        )
    return "\n".join(lines) + "\n"
