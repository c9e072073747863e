"""``python -m terraform.generate`` writes every generated file again."""

from terraform.generate import files

for path, text in files.generated().items():
    (files.ROOT / path).write_text(text, encoding="utf-8")
for path, packed in files.packages().items():
    (files.ROOT / path).write_bytes(packed)
