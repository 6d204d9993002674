"""The words a reader may not know, each said in a sentence. Shown where the word stands."""

from __future__ import annotations

from surefoot.reporting.web.html import Html, el, esc

WORDS = {
    "held-out": "On scenarios that training never saw, drawn from seeds that training cannot reach.",
    "audit": (
        "A run held to what it says by detectors, each one question with its threshold. A finding on the "
        "proof leaves the run Unproven; one on the behaviour stands beside the verdict. What could not be "
        "looked at is never counted as passed."
    ),
    "confirmation half": (
        "The half of the panel that nothing was chosen on: no stopping, no picking of a checkpoint."
    ),
    "selection half": (
        "The half of the panel that training looked at to stop and to pick its best checkpoint."
    ),
    "interval": (
        "Where the true figure lies with 95% confidence, counting scenarios (on older panels families of "
        "them) as independent."
    ),
    "over seeds": (
        "Where the typical (median) training seed lies with 95% confidence, or with what the lowest and the "
        "highest seed attain where they are few (five: 93.75%). Exact for any distribution, by sign flips; "
        "episodes of one policy do not count as independent."
    ),
    "minimum detectable": (
        "The smallest true difference that this many seeds, spread as these are, would find with 80% power."
    ),
    "paired by seed": (
        "Runs with the same training seed are compared with each other, on the same held-out scenarios; what "
        "the seed makes easy or hard cancels."
    ),
    "n": "How many episodes were played.",
    "n_eff": (
        "How many independent episodes the interval is worth: episodes of one seed family share draws, and "
        "where hardly any failed the data cannot rule out that whole families fail together."
    ),
    "few families": (
        "Fewer than 28 seed families: the interval also allows for what whole families may now and then "
        "share and none of these showed."
    ),
    "success": (
        "The episode did not end early, and its mean velocity and turning errors stayed below the "
        "contract's limits."
    ),
    "fall rate": (
        "Share of episodes that ended before their time: tilted over, trunk on the ground, sunk, or not "
        "finite."
    ),
    "velocity error": (
        "Mean distance between commanded and actual velocity over the ground, after the settling time."
    ),
    "turning error": "Mean distance between commanded and actual turning rate, after the settling time.",
    "cost of transport": (
        "Mechanical work per weight and distance; no unit. A walking person is near 0.2, small robots are"
        " above 1."
    ),
    "steps/s": "Control steps of all environments per second: the systems claim.",
    "wall-clock": (
        "From the start of the program to the result: start-up, training, the evaluations that choose a "
        "checkpoint, and the closing evaluation that confirms it."
    ),
    "safety limit": (
        "The share of control steps with any joint at its torque limit. The contract states the most that is "
        "allowed; a policy beyond it fails, whatever its success."
    ),
    "simulation only": (
        "Everything here happened in a simulator. No figure on this page says how a real robot would do."
    ),
    "not shown": (
        "Fewer than 6 episodes: even if all of them succeed, the 95% interval reaches below 50%, so they "
        "show nothing either way."
    ),
    "independent samples": (
        "How many independent samples a batch is worth. Samples of one environment follow each other and "
        "those of one seed family share draws, so it is fewer than it holds. Counted by the return of their "
        "episodes, and by the advantages that the learner uses."
    ),
    "baselines": (
        "Policies that learned nothing, on the same scenarios: standing still in the default pose, random"
        " actions, and a hand-written trot."
    ),
    "contract": (
        "What the task promises, written before training: what is seen, done, rewarded, and called a success."
    ),
    "recipe": "How it was trained: environments, horizon, minibatches, epochs, networks.",
    "return": (
        "Sum of the rewards of a training episode. It says what the learner was paid, not what the robot "
        "can do."
    ),
    "reset reasons": "Why training episodes ended.",
    "stratum": "A group of episodes alike in a randomised quantity such as friction, payload or command.",
    "perturbation": (
        "The same scenarios played again with one thing made harder, which training was not tuned to."
    ),
    "holds": (
        "The lower end of the success interval stays above the bar that the evaluation sets: shown, not "
        "assumed."
    ),
    "training range": "The values drawn in training (shaded). Beyond it the policy is extrapolating.",
    "batch honesty": (
        "Whether the thousands of environments are as many as they look: staggered, distinct, and "
        "covering all conditions."
    ),
    "freshness": "How old the policy was that collected a sample, when the learner used it.",
    "fleet": "One learner, and actors that collect for it in processes of their own.",
    "actor": (
        "A process with whole seed families of the environments and a copy of the policy. Its rate is "
        "counted from the moment it is asked for a fragment until that has arrived."
    ),
    "lag": (
        "How many versions of the policy had been made since the one that collected, when an update began "
        "with the fragment."
    ),
    "ticket": (
        "What an actor gets when it is asked for a fragment of experience. Each ends once: learned from, "
        "dropped, or lost with its actor."
    ),
    "construct id": "Digest of everything that must match before two results may be compared.",
    "measurement id": "Digest of how a result was measured: what must match before two may be compared.",
    "interface id": "Digest of what the policy sees, does and remembers: part of its treatment.",
    "training id": "Digest of the treatment: how the policy was trained.",
    "seed family": "Environments that share the draws marked family-level; the cluster in every statistic.",
    "sim-to-sim": (
        "The same policy on the same scenarios in a second simulator. It says nothing of a real robot."
    ),
    "systems claim": "Steps were collected this fast.",
    "learning claim": "The policy is this good on held-out scenarios.",
    "embodiment claim": (
        "It survives pushes, delays, payloads and a second simulator that were not tuned into training."
    ),
    "KL": "How far an update moved the policy, in nats.",
    "clip share": "Share of samples on which the update was stopped by PPO's clip.",
    "first ratio": (
        "Largest difference from 1 of the first probability ratio: 0 means that learning saw exactly the "
        "policy that collected."
    ),
    "reset synchrony": (
        "0: resets are spread over time. 1: all environments restart together, and the batch is one "
        "moment many times over."
    ),
    "reset clumping": (
        "Variance over mean of resets per step (Fano factor): about 1 when they are independent."
    ),
    "duplicate scenarios": "Environments that were in exactly the same scenario as another.",
    "pairs covered": "Share of all pairs of factor bins that the batch contained.",
    "alike within families": (
        "Intraclass correlation of returns: 0, families are no more alike than strangers; 1, a family is "
        "one sample."
    ),
}


CAUSES = {
    "perception": "what it senses",
    "state": "the state it was in",
    "action": "what its motors can do",
    "timing": "timing",
    "reward": "what it was paid for",
    "evaluation": "the evaluation itself",
    "unknown": "no rule explains it",
}
"""The causes that failure labels point to, in words."""


def glossary(page: str) -> Html:
    """Lists the words that `page` explains, with what they mean, in the order of the alphabet."""
    used = sorted((name for name in WORDS if esc(WORDS[name]) in page), key=str.lower)
    return el("dl", *[el("div", el("dt", name), el("dd", WORDS[name])) for name in used], class_="glossary")


def word(name: str, shown: str | None = None) -> Html:
    """Writes the word, with its meaning on hover, tap and focus."""
    return el("span", shown or name, class_="word", tabindex="0", data_tip=WORDS[name])
