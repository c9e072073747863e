"""Recordings in every form that is read: tables, Parquet, answers of Prometheus, and costguard's own."""
