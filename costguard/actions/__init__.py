"""What costguard can do when a reason holds: facts, plan, execution, confirmation."""
