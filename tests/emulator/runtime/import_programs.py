"""Generated programs with `import()` in places that only a real parser tells from a regular expression, a text or a
comment. Knows no compiler."""

from hypothesis import strategies as st

MOST_IMPORTS = 8
"""A program imports `./h0.js` to `./h7.js` at most, each in one place."""

GLOBALS = "var x = 1, y = 2, g = 3, i = 4, a = [1], o = { of: 1, p: { q: 1 }, import() { return 1; } };\n"

# `E` is an import, `S` a statement, `X` an expression; whether the E of a place is code is for the parsers to say.
EXPRESSIONS = (
    "E", "(E)", "`a${X}b`", "`a\\${E}b`", "`${`${X}`}`", "`${{}}/${X}`", "x/E/g", "(x)/E/g", "a[0]/E/g", "x++/E/g", "({}/E/g)",
    "(class{}/E/g)", "(function(){}/E/g)", "1/E/1", "1./E/g", ".5/E/g", "0x1/E/g", "1n/E/g", "'s'/E/g", "`t`/E/g", "o.of/E/g",
    "o.p.q/E/g", "o?.p/E/g", "this/E/g", "typeof/E/g", "void/E/g.source", "!/E/.lastIndex", "-/E/.lastIndex", "[/E/g]", "x?/E/g:1",
    "x?1:/E/g", "x,/E/g", "(/E/g)", "/[/]E/.source", "/[/'`\"]E/.source", "/\\//.source/E/g", "/a/g/E/g", "/\\/E/.source", "/[\\]/]E/v",
    "'E'", "'\\'E'", "'a\\\nE'", "x/*E*/", "x//E\n/E/g", "o.import('./no.js')", "o?.import('./no.js')", "({import:1}).import", "import.meta",
    "(()=>{return/E/g})()", "(()=>{return\n/E/g})()", "(()=>{return X})()", "(function*(){yield/E/g})().next()", "((x)=>/E/g)()",
    "((x)=>(X))()", "(async()=>{await/E/g})()", "(async()=>{await X})()", "async\n=>/E/g", "new.target", "x in/E/g", "x<!--E\n", "x\n-->E\n",
    "o.x=/E/g", "x/=E", "x**=E", "x??=E", "x=>X", "x=>{S}", "String.raw`\\u{E}${X}`", "(x,X)", "[...`${X}`]", "a?.[X]", "x\n++\ny/E/g",
    "((x=X)=>x)()", "(({x=X})=>x)({})", "new class{constructor(){X}}", "class{static{S}}", "class{[X]=1}", "class{static x=X}", "new(class{#p=/E/g;p(){return #p in this/E/g}})().p()",
    "{}[X]", "`\n${X}\n`", "x\u2028/E/g", "x\u00a0/E/g", "0&&E", "1||X", "delete E", "im\\u0070ort('./h0.js')", "import.source('./h0.js')",
)  # fmt: skip
STATEMENTS = (
    "X;", "X\n", ";/E/g;", "{}/E/g;", "{}\n/E/g;", "if(x)/E/g;", "if(x){}/E/g;", "if(x);else/E/g;", "while(0)/E/g;", "do{}while(0)/E/g;",
    "do/E/g;while(0)", "for(;0;)/E/g;", "for(x of/E/g.source){}", "for(x in/E/g){}", "for(var of of[1])/E/g;", "switch(x){case/E/g:default:/E/g}",
    "l:/E/g;", "function f(){}/E/g;", "function f(){}\n/E/g;", "class C{}/E/g;", "class C{}\n/E/g;", "let f=function(){}\n/E/g", "let f=class{}\n/E/g",
    "let f=()=>{}\n/E/g", "let f=x=>x\n/E/g", "let f=async x=>{}\n/E/g;", "throw/E/g;", "var v=X;", "let v=/E/g;", "const v=X,w=/E/g;",
    "// E\n", "/* E */", "/*\n*/E;", "// \u2028E\n;", "//\rE\n;", "//\\\nE;", "/**/E;", "<!--E\n", "-->E\n", "/*\n*/-->E\n", "try{S}catch{/E/g}finally{S}",
    "with(o)E;", "{S}", "{S}/E/g;", "x\n/E/g;", "x\n/E/\ng;", "async function f(){await/E/g}f();", "async\nfunction f(){}/E/g;",
    "function*f(){yield\n/E/g}f().next();", "yield/E/g;", "let\n/E/g;", "of/E/g;", "get/E/g;", "await/E/g;", "await X;", "export{};/E/g;", "debugger/E/g;",
    "var {x:z=X}=o;", "for await(const q of[X]){}", "label:{break label/E/g}", "if(0)X;else S", "return/E/g;", "enum/E/g;",
)  # fmt: skip
IMPORTS = (
    'import("./H")', "import(`./H`)", 'import\n("./H")', 'import/**/("./H")', 'import//(\n("./H")', 'import(/*)*/"./H")', 'import("./H",)',
    'import ("./H",undefined)', 'import\u00a0("./H")', 'import\ufeff(("./H"))', 'import("./H").then(m=>m)', 'import(`${"./H"}`)',
    'import(["./H"])', 'import((x,"./H"))', 'import\u2029\t("./" + "H")', "import(/[)]/.test(')')?'./H':1)",
)  # fmt: skip


class _Writer:
    """Fills a template's places, deeper ones with what ends the recursion."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._count = 0

    def statement(self, depth: int) -> str:
        return self._fill(self._draw(st.sampled_from(STATEMENTS)), depth)

    def _fill(self, template: str, depth: int) -> str:
        return "".join(self._place(letter, depth) if letter in "ESX" else letter for letter in template)

    def _place(self, letter: str, depth: int) -> str:
        if letter == "E" or depth == 0:
            return self._import() if letter != "S" else ";"
        if letter == "S":
            return self.statement(depth - 1)
        return self._fill(self._draw(st.sampled_from(EXPRESSIONS)), depth - 1)

    def _import(self) -> str:
        if self._count == MOST_IMPORTS:
            return "x"
        self._count += 1
        return self._draw(st.sampled_from(IMPORTS)).replace("H", f"h{self._count - 1}.js")


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A module of one to three statements, most of them legal."""
    writer = _Writer(draw)
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        statement = writer.statement(2)
        lines.append(f"try {{ {statement}\n }} catch {{}}" if draw(st.booleans()) else statement)
    return GLOBALS + "\n".join(lines)
