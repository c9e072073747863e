"""What costguard costs: `python bench/run.py`."""
