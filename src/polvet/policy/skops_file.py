"""skops files: estimators of scikit-learn without pickle; trees, forests, boosting and MLPClassifier are read and written.

SOUND    skops itself refuses types that it does not trust; trusted here are the few classes that these estimators are made of
"""

from __future__ import annotations

from typing import Any

from polvet.errors import InputError, MissingExtra, Where
from polvet.files import write_whole
from polvet.policy.archives import open_archive
from polvet.policy.format import Content, Names, PolicyFormat
from polvet.policy.protocol import Policy
from polvet.policy.signatures import SIGNATURES
from polvet.policy.sklearn_network import network_from_perceptron, perceptron_of
from polvet.policy.sklearn_trees import ensemble_from_sklearn
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import AnyNetwork

TRUSTED = (
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
)


def estimator_from_skops(data: bytes, where: Where) -> Any:
    """Return the estimator in a skops file's bytes; types that skops does not trust are refused by name."""
    skops = _skops()
    open_archive(data, where)
    try:
        strange = sorted(set(skops.get_untrusted_types(data=data)) - set(TRUSTED))
        if strange:
            raise InputError(
                f"the file holds objects of the types {', '.join(strange)}.",
                where,
                "Only trees and MLPClassifier are read.",
            )
        return skops.loads(data, trusted=list(TRUSTED))
    except InputError:
        raise
    except Exception as error:  # skops raises errors of many kinds on damaged files
        raise InputError(
            f"is not a readable skops file ({type(error).__name__}: {error}).",
            where,
            "Save it again with skops.io.dump.",
        ) from None


def save_skops(policy: Policy, path: str) -> None:
    """Write the estimator that the policy came from, with the policy's trees or last layer."""
    if not isinstance(policy, TreeEnsemble | AnyNetwork):
        raise InputError("only trees and networks come from scikit-learn.", Where(path), "Save it as .json.")
    from polvet.policy.sklearn_save import estimator_of

    estimator = estimator_of(policy) if isinstance(policy, TreeEnsemble) else perceptron_of(policy)
    write_whole(path, _skops().dumps(estimator))


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise MissingExtra("skops", "trees") from None  # skops brings scikit-learn
    return skops.io


def _read(content: Content, names: Names) -> Policy:
    estimator = estimator_from_skops(content.data, content.where)
    if type(estimator).__name__ == "MLPClassifier":
        return network_from_perceptron(estimator, content.where, *names.both)
    return ensemble_from_sklearn(estimator, *names.both, content.where)


def _writes(policy: Policy, path: str) -> bool:
    if isinstance(policy, TreeEnsemble):
        return policy.origin is not None and policy.origin.kind == "sklearn"
    return isinstance(policy, AnyNetwork) and path.endswith(".skops")


SKOPS = PolicyFormat(
    "skops",
    "scikit-learn's trees, forests, boosting and MLPClassifier as skops",
    "`schema.json` in the archive",
    "`feature_names_in_`, `classes_` (texts, or the labels' numbers)",
    detects=SIGNATURES["skops"],
    read=_read,
    writes=_writes,
    write=save_skops,
    saved="yes; loads in scikit-learn, in the same class",
    extra="trees",
)
