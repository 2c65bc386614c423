"""What a checker must have looked at before it accepts, by name: one list for every kind, and which function discharges what.

A kind that leaves an obligation out says why in `WITHOUT`.
"""

OBLIGATIONS = {
    "starts": "every start that the claim is about is covered, and there is one",
    "labels": "every label that is applicable, or every branch of a plan, is covered",
    "ends": "where runs end, they end as the claim says",
    "errors": "no operator that is enabled, chosen or not, breaks a rule of the model",
    "ties": "every label that some order of evaluation takes is followed",
}
FOLLOWED = {"errors": "arena.Arena.moves", "ties": "followed.Followed.steps", "labels": "followed.Followed.steps"}
LISTED = {"starts": "safe_policy.read_places", "errors": "arena.Arena.moves"}
SHIELD = {"starts": "all_starts.iter_all_starts", "errors": "arena.Arena.moves", "labels": "permissive.label_rows"}
PLAN = {"starts": "counters.find_subject"}
BY_KIND = {
    "action-risk": {**SHIELD, "labels": "action_risk._check_risks", "ends": "permissive._rows"},
    "conflict": {
        **SHIELD,
        "starts": "all_starts.is_start",
        "labels": "conflict._add_unlisted",
        "ends": "action_risk.check_not_less",
    },
    "general": {**PLAN, "labels": "general._Rules.steps", "ends": "general._check_problem"},
    "general-refuted": {"starts": "general._check_run", "ends": "general._check_run", "labels": "general._Rules.steps"},
    "goal-missed": {**PLAN, "ends": "goal.is_stopped"},
    "goal-reaching": {**PLAN, "labels": "lex_rank._lower", "ends": "goal.find_stop_outside"},
    "grid": {
        "starts": "all_starts.check_some_start",
        "labels": "flow.Flow.step",
        "ends": "flow.Moves.may_fail",
        "errors": "flow.Flow._may_break",
        "ties": "flow.Flow._possible_outputs",
    },
    "invariant": {
        "starts": "all_starts.check_some_start",
        "labels": "invariant_states.Judge.one",
        "ends": "invariant_states.Judge.one",
        "errors": "arena.Arena.moves",
        "ties": "invariant_states.Judge.one",
    },
    "its-run": {"starts": "its_run.find_flaw", "ends": "its_run.find_flaw"},
    "lasso": {**PLAN, "ends": "lasso.check_replay"},
    "lex-rank": {**PLAN, "labels": "lex_rank._lower", "ends": "lex_rank._find_cycle"},
    "livelock": {**FOLLOWED, "starts": "all_starts.is_start", "ends": "ends._check_goes_on"},
    "lost-projection": {
        "starts": "safe_policy.read_places",
        "labels": "lost_boxes._check_operator",
        "ends": "lost_boxes._check_enabled",
        "errors": "lost_boxes._check_errors",
    },
    "no-strong-cyclic": {
        "starts": "safe_policy.read_places",
        "labels": "strong_cyclic._check_lost",
        "ends": "strong_cyclic._check_lost",
    },
    "permissive": {**SHIELD, "ends": "permissive._rows"},
    "reachable-set": {**FOLLOWED, "starts": "all_starts.iter_all_starts", "ends": "reachable_set.successors"},
    "recurrent-set": {**PLAN, "ends": "recurrent_set.find_leak"},
    "repair": {
        "starts": "repair._check_fault",
        "labels": "repair._check_fault",
        "errors": "arena.Arena.moves",
        "ties": "repair._taken",
    },
    "risk-bound": {**FOLLOWED, "starts": "all_starts.iter_all_starts", "ends": "risk_bound._check_above"},
    "risk-exceeds": {**FOLLOWED, "starts": "all_starts.is_start", "ends": "risk_bound._check_below"},
    "run": {
        "starts": "all_starts.is_start",
        "labels": "run.replay_run",
        "ends": "run.replay_run",
        "errors": "arena.Arena.moves",
    },
    "safe-policy": {**LISTED, "labels": "safe_policy._allowed_outcomes", "ends": "safe_policy._allowed_outcomes"},
    "safe-region": {
        **LISTED,
        "starts": "all_starts.check_some_start",
        "labels": "arena.Arena.outcomes",
        "ends": "safe_policy._allowed_outcomes",
    },
    "solves": {"starts": "lex_rank.check_ranking", "labels": "lex_rank._lower", "ends": "lex_rank._find_cycle"},
    "strong-cyclic": {**LISTED, "labels": "strong_cyclic._check_won", "ends": "strong_cyclic._check_won"},
    "sure-end": {**FOLLOWED, "starts": "all_starts.iter_all_starts", "ends": "ends._check_ends"},
    "unsafe-rank": {
        "starts": "safe_policy.read_places",
        "labels": "unsafe_rank._check_ranked",
        "ends": "unsafe_rank._check_ranked",
    },
    "won-projection": {
        "starts": "won_projection._check_listed",
        "labels": "won_projection._check_labels",
        "ends": "invariant_states.Judge.one",
        "errors": "arena.Arena.moves",
        "ties": "invariant_states.Judge.one",
    },
}
PLANS = (
    "general",
    "general-refuted",
    "goal-missed",
    "goal-reaching",
    "its-run",
    "lasso",
    "lex-rank",
    "recurrent-set",
    "solves",
)
NO_POLICY = "it is about what somebody may choose, not about a policy that computes scores"
ONE_RUN = "it is about one run, or one cycle: what else could be chosen does not matter"
WITHOUT = {
    **{
        (kind, what): "plans and systems have no rules that a step may break, and compute no scores"
        for kind in PLANS
        for what in ("errors", "ties")
    },
    **{(kind, "labels"): ONE_RUN for kind in ("goal-missed", "its-run", "lasso", "recurrent-set")},
    **{
        (kind, "ties"): NO_POLICY
        for kind in ("action-risk", "conflict", "permissive", "safe-policy", "safe-region", "strong-cyclic")
    },
    **{(kind, "ties"): NO_POLICY for kind in ("lost-projection", "no-strong-cyclic", "unsafe-rank")},
    ("run", "ties"): "an unsafe run is made in the reference order",
    ("repair", "ends"): "it is about single decisions",
    # Where the certificate of `kinds.py` lists fail states alone, nothing is enabled there that could err.
    ("unsafe-rank", "errors"): "its states are run by `Arena.outcomes` where they are not in fail",
    ("no-strong-cyclic", "errors"): "its states are run by `Arena.outcomes` where they are not in fail",
}
