data "aws_partition" "this" {}

resource "aws_iam_role" "this" {
  name = var.name
  tags = var.tags

  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "lambda.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

resource "aws_iam_role_policy" "this" {
  name = var.name
  role = aws_iam_role.this.name

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        { Sid = "Looks", Effect = "Allow", Action = ["ec2:DescribeInstances", "cloudwatch:GetMetricStatistics"], Resource = "*" },
        { Sid = "Tells", Effect = "Allow", Action = ["sns:Publish"], Resource = var.topic_arn },
        { Sid = "Logs", Effect = "Allow", Action = ["logs:CreateLogStream", "logs:PutLogEvents"], Resource = "${aws_cloudwatch_log_group.this.arn}:*" },
      ],
      var.mode != "live" ? [] : [{
        Sid       = "StopsWhatItsOwnerTagged"
        Effect    = "Allow"
        Action    = ["ec2:StopInstances"]
        Resource  = "arn:${data.aws_partition.this.partition}:ec2:*:*:instance/*"
        Condition = { StringEquals = { "aws:ResourceTag/costguard-backstop" = ["lease", "idle"] } }
      }],
    )
  })
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/aws/lambda/${var.name}"
  retention_in_days = 90
  tags              = var.tags
}

resource "aws_lambda_function" "this" {
  function_name    = var.name
  description      = "Tells of machines whose costguard is silent"
  role             = aws_iam_role.this.arn
  runtime          = "python3.12"
  handler          = "watch.handler"
  filename         = "${path.module}/watch.zip"
  source_code_hash = filebase64sha256("${path.module}/watch.zip")
  timeout          = 120
  memory_size      = 256
  tags             = var.tags

  # Two looks at once could stop twice as many. An account with few executions left refuses this; then raise its quota.
  reserved_concurrent_executions = 1

  environment {
    variables = {
      TOPIC       = var.topic_arn
      MODE        = var.mode
      EVERY       = var.every_minutes
      STALE_AFTER = var.stale_after_minutes
      QUIET_FOR   = floor(var.quiet_hours * 60)
      LIMIT       = var.limit
      SHARE       = var.many_share
    }
  }

  depends_on = [aws_cloudwatch_log_group.this, aws_iam_role_policy.this]
}

resource "aws_cloudwatch_event_rule" "this" {
  name                = var.name
  description         = "When the backstop looks"
  schedule_expression = "rate(${var.every_minutes} minutes)"
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "this" {
  rule = aws_cloudwatch_event_rule.this.name
  arn  = aws_lambda_function.this.arn
}

resource "aws_lambda_permission" "this" {
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.this.function_name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.this.arn
}

# Who watches the watcher: a look that fails, and one that does not happen.
resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = { fails = { metric = "Errors", operator = "GreaterThanThreshold", missing = "notBreaching" }, silent = { metric = "Invocations", operator = "LessThanOrEqualToThreshold", missing = "breaching" } }

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "The backstop of costguard ${each.key == "fails" ? "fails: see its log" : "does not run"}; nobody watches the guards' heartbeats"
  namespace           = "AWS/Lambda"
  metric_name         = each.value.metric
  dimensions          = { FunctionName = aws_lambda_function.this.function_name }
  statistic           = "Sum"
  period              = max(60, 2 * 60 * var.every_minutes)
  evaluation_periods  = 1
  threshold           = 0
  comparison_operator = each.value.operator
  treat_missing_data  = each.value.missing
  alarm_actions       = [var.topic_arn]
  ok_actions          = [var.topic_arn]
  tags                = var.tags
}
