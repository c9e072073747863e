"""Which scheduler or service an instance belongs to, by its tags.

Sources: EKS, ECS, AWS Batch, ParallelCluster, PCS and EMR documentation (tags of their instances); Kubernetes, cluster
API and Karpenter (tags of their cloud providers).
"""

from collections.abc import Mapping

from costguard.cloud.managed import POWER_DOWN as COMMON
from costguard.cloud.managed import by_tags

_TAGS = {
    "aws:eks:cluster-name": "EKS",
    "eks:cluster-name": "EKS",
    "eks:nodegroup-name": "EKS",
    "alpha.eksctl.io/cluster-name": "EKS",
    "karpenter.sh/nodepool": "Karpenter",
    "karpenter.sh/provisioner-name": "Karpenter",
    "KubernetesCluster": "Kubernetes",
    "aws:ecs:clusterName": "ECS",
    "AmazonECSManaged": "ECS",
    "AWSBatchServiceTag": "AWS Batch",
    "parallelcluster:cluster-name": "ParallelCluster",
    "parallelcluster:node-type": "ParallelCluster",
    "aws-parallelcluster-node-type": "ParallelCluster",
    "aws:pcs:cluster-id": "AWS PCS",
    "aws:pcs:compute-node-group-id": "AWS PCS",
    "aws:elasticmapreduce:job-flow-id": "EMR",
    "aws:elasticmapreduce:instance-group-role": "EMR",
    "spotinst:aws:ec2:group:id": "Spot by Flexera",
}
_PREFIXES = {
    "kubernetes.io/cluster/": "Kubernetes",
    "k8s.io/cluster-autoscaler/": "Kubernetes",
    "sigs.k8s.io/cluster-api-provider-aws/": "Kubernetes",
}
_VALUES = {("vendor", "databricks"): "Databricks"}

_NODE_GROUP = "scale its node group down: `aws eks update-nodegroup-config`, or let the cluster autoscaler do it"
POWER_DOWN = {
    "EKS": _NODE_GROUP,
    "Karpenter": "let Karpenter consolidate it, or `kubectl delete nodeclaim NAME`",
    "ECS": "set the container instance to DRAINING, and lower the desired capacity",
    "AWS Batch": "cancel its jobs: the compute environment then scales to its minimum of vCPUs by itself",
    "ParallelCluster": f"{COMMON['Slurm']} (ScaledownIdletime)",
    "AWS PCS": "set the scale-down idle time of the cluster",
    "EMR": "`aws emr modify-cluster-attributes`, or set an auto-termination policy",
}
"""How services of AWS end their idle nodes themselves."""


def owner(tags: Mapping[str, str]) -> tuple[str, str] | None:
    """The scheduler and the tag that shows it."""
    return by_tags(tags, _TAGS, _PREFIXES, _VALUES)
