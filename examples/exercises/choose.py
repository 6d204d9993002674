"""Exercise 2: which N, T, minibatches and epochs satisfy a budget? Prints every choice that does.

python examples/exercises/choose.py --samples 4000000 --updates 200 --minibatch 4096 --steps 20 --lag 0.3 0.5
"""

from __future__ import annotations

import argparse
import itertools

from surefoot.contract import Recipe

ENVS = (256, 512, 768, 1024, 2048, 4096)
HORIZONS = (8, 16, 24, 32, 48)
MINIBATCHES = (2, 4, 8, 16)
EPOCHS = (3, 4, 5, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, required=True, help="in all: steps/s x seconds you have")
    parser.add_argument("--updates", type=int, required=True, help="at least this many")
    parser.add_argument("--minibatch", type=int, required=True, help="at least this many samples each")
    parser.add_argument("--steps", type=int, required=True, help="gradient steps an update")
    parser.add_argument("--lag", type=float, nargs=2, required=True, help="seconds of a rollout, from and to")
    args = parser.parse_args()
    print(
        f"{'N':>5} {'T':>3} {'minibatches':>12} {'epochs':>7} {'a minibatch':>12} {'updates':>8} {'lag s':>6}"
    )
    for n, t, m, e in itertools.product(ENVS, HORIZONS, MINIBATCHES, EPOCHS):
        r = Recipe(envs=n, horizon=t, minibatches=m, epochs=e)
        each, updates, lag = r.samples_per_update // m, args.samples // r.samples_per_update, t / r.control_hz
        fits = each >= args.minibatch and updates >= args.updates and m * e == args.steps
        if fits and args.lag[0] <= lag <= args.lag[1]:
            print(f"{n:>5} {t:>3} {m:>12} {e:>7} {each:>12,} {updates:>8,} {lag:>6.2f}")


if __name__ == "__main__":
    main()
