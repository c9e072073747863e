"""The style of the page: light, dark, phone and paper. It refers to nothing outside."""

from costguard.report.palette import DARK, LIGHT, Palette

PREFIX = "--cg-"


def variables(palette: Palette) -> str:
    """The colours, for the page and for the pictures on it."""
    return "".join(f"{PREFIX}{name}:{colour};" for name, colour in palette._asdict().items())


RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--cg-paper);color:var(--cg-ink);font:1rem/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;overflow-wrap:anywhere}
main{max-width:64rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0}
h2{font-size:1.15rem;margin:2rem 0 .5rem}
p{margin:.5rem 0}
ul{margin:.5rem 0;padding-left:1.25rem}
.quiet{color:var(--cg-muted)}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(13rem,45%),1fr));gap:.5rem;margin:1rem 0}
dl div{background:var(--cg-lane);border:1px solid var(--cg-grid);border-radius:.4rem;padding:.5rem .7rem}
dt{color:var(--cg-muted);font-size:.875rem}
dd{margin:0;font-size:1.15rem;font-weight:600}
figure{margin:1rem 0}
svg{display:block;width:100%;height:auto}
svg.narrow{display:none}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--cg-muted);padding:.25rem 0}
th,td{text-align:left;vertical-align:top;padding:.35rem .75rem .35rem 0;border-bottom:1px solid var(--cg-grid);overflow-wrap:break-word}
thead th,tbody th{white-space:nowrap}
code{font:.92em ui-monospace,Menlo,Consolas,monospace}
th{font-weight:600}
thead th{color:var(--cg-muted)}
.number{text-align:right;white-space:nowrap}
td.text{max-width:24rem}
.time{white-space:nowrap}
summary{cursor:pointer;margin-top:1.5rem}
summary h2{display:inline}
@media screen and (max-width:40rem){
svg.wide{display:none}
svg.narrow{display:block;max-width:30rem}
}
@media screen and (max-width:54rem){
.stack thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.stack tr{display:block;border-bottom:1px solid var(--cg-grid);padding:.5rem 0}
.stack td,.stack th{display:block;border:0;padding:.1rem 0;text-align:left;white-space:normal;max-width:none;overflow-wrap:anywhere}
.stack td:empty{display:none}
.stack td[data-name]::before{content:attr(data-name) ': ';color:var(--cg-muted)}
}
@page{margin:15mm}
"""

PAPER = """
body{font-size:10pt}
main{max-width:none;padding:0}
h2{break-after:avoid}
figure,tr,dl div{break-inside:avoid}
svg.wide{display:block}
svg.narrow{display:none}
.scroll{overflow:visible}
details:not([open]){display:none}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
"""


def sheet() -> str:
    """All of it."""
    return (
        f":root{{color-scheme:light dark;{variables(LIGHT)}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}\n{RULES}"
        f"@media print{{:root{{color-scheme:light;{variables(LIGHT)}}}{PAPER}}}\n"
    )
