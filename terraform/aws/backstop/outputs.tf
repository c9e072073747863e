output "function_name" {
  description = "The function: `aws lambda invoke` runs a look now."
  value       = aws_lambda_function.this.function_name
}

output "role_name" {
  description = "The role that it runs as."
  value       = aws_iam_role.this.name
}
