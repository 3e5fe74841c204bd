"""Long work that outlives its request: queued, run one at a time of each kind, and written down.

See `kind` for how a kind of job is made.
"""

from headrace.actors.jobs.actor import Jobs
from headrace.actors.jobs.job import Event, Job, Result, Status
from headrace.actors.jobs.kind import JobContext, JobKind
from headrace.actors.jobs.opening import open_jobs

__all__ = [
    "Event",
    "Job",
    "JobContext",
    "JobKind",
    "Jobs",
    "Result",
    "Status",
    "open_jobs",
]
