"""Control problems with real-valued variables and a time step tau: ball, pendulum, car.

Source  "safety debugging" (tau = 0.01, 0.1 and 0.4 in its Table 1), after Bacci, Giacobbe and Parker 2021. Ball and
        pendulum follow the authors' own instances, number for number; the car is not public.
Limits  every episode ends: the goal is to survive 1000 steps.
"""

from __future__ import annotations

from fractions import Fraction

from polvet.domains.instance import Instance
from polvet.model.build import ModelBuilder
from polvet.model.terms import every, some

STEPS = 1000  # to survive
LONGEST = 4000  # steps in an episode


def bouncing_ball(*, tau: Fraction = Fraction(1, 100)) -> Instance:
    """Return the ball that must be hit from time to time, or it stops bouncing, which is the failure.

    `push` hits the ball downward by 4 m/s when it is between 5 and 9 m high; `skip` does nothing. On the ground it
    bounces and loses a tenth of its energy. The failure: the ball is too low and too slow to reach the paddle again.
    Start: between 5 and 9 m, at most 1 m/s.

    Differs nothing but tau from the authors' instance, which has tau = 0.3 and no bound on an episode before 4000.
    """
    m = ModelBuilder("bouncing_ball")
    m.note("description", "Keep a ball bouncing by hitting it in time.")
    m.constant("timestep", tau, type="real")
    m.constant("gravity", Fraction("-9.8067"), type="real")
    m.constant("height_coefficient", Fraction("0.9"), type="real")
    m.constant("velocity_coefficient", Fraction("-0.9487"), type="real")
    m.constant("return_velocity", Fraction("9.9029"), type="real")
    m.constant("push_lower", 5)
    m.constant("push_upper", 9)
    episode = m.int("episode", 0, LONGEST, initial=0)
    m.real("height", 0, 1000, initial=5)
    m.real("velocity", -100, 100, initial=1)
    lands = "height <= (0 - velocity) * timestep - 0.5 * (gravity * (timestep * timestep))"
    flies = "(0 - velocity) * timestep - 0.5 * (gravity * (timestep * timestep)) < height"
    fallen = "height + (velocity * timestep + 0.5 * gravity * (timestep * timestep))"
    for label, push, reach in (("push", 4, ["push_lower <= height", "height <= push_upper"]), ("skip", 0, [])):
        counted = episode + 1
        m.edge(
            label,
            guard=every(*reach, flies, f"-100 <= velocity - {push} + gravity * timestep", counted <= LONGEST),
            to={"height": fallen, "velocity": f"velocity + (timestep * gravity - {push})", "episode": counted},
        )
        bounced = f"(velocity - {push}) * velocity_coefficient"
        m.edge(
            label,
            guard=every(*reach, lands, f"{bounced} <= 100", counted <= LONGEST),
            to={"height": "height * height_coefficient", "velocity": bounced, "episode": counted},
        )
    weak = [f"height {sign} velocity * (push_lower / return_velocity) <= push_lower - 0.0001" for sign in "+-"]
    start = every("5 <= height", "height <= 9", "-1 <= velocity", "velocity <= 1", episode == 0)
    return Instance.of(m, start=start, fail=every(*weak, episode <= STEPS - 1), goal=episode >= STEPS)


def inverted_pendulum(*, tau: Fraction = Fraction(1, 10)) -> Instance:
    """Return the pole that is kept upright by turning left or right; 45 degrees to a side is the failure.

    `rotate_left` and `rotate_right` apply a torque, and are applicable only where they do not fail at once; `skip` lets
    the pole fall. Start: within 0.05 rad of upright, at most 0.1 rad/s.

    Differs from the authors' instance after a failure: a fallen pole does not move on, since it would leave the bounds
            of their variables (angle 7.85, speed 10). For other tau the bounds are wide enough for one step.
    """
    m = ModelBuilder("inverted_pendulum")
    m.note("description", "Keep a pole upright.")
    m.constant("timestep", tau, type="real")
    for name, value in (("mass", "1.0"), ("length", "1.0"), ("gravity", "9.8607")):
        m.constant(name, Fraction(value), type="real")
    episode = m.int("episode", 0, LONGEST, initial=0)
    # Faster than 1.57 / tau, the next step leaves the upright region; a step adds at most 17.7 tau.
    fastest = max(Fraction(10), Fraction("1.57") / tau) + 40 * tau
    m.real("angle", -(1 + fastest * tau), 1 + fastest * tau, initial=0)
    m.real("angular_velocity", -fastest, fastest, initial=0)
    upright = every("-0.785 < angle", "angle < 0.785", episode + 1 <= LONGEST)
    swing = "-3 * gravity / (2 * length) * (0 - angle)"
    for label, torque in (("rotate_left", -2), ("rotate_right", 2), ("skip", 0)):
        force = f"({swing} + 3 / (mass * (length * length)) * {torque})" if torque else swing
        speed = f"angular_velocity + {force} * timestep"
        angle = f"angle + ({speed}) * timestep"
        allowed: list[str] = []
        if torque:
            held = f"-10 <= {speed}" if torque < 0 else f"{speed} <= 10"
            allowed = [f"-0.785 <= {angle}", f"{angle} <= 0.785", held]
        m.edge(
            label,
            guard=every(upright, *allowed),
            to={"angle": angle, "angular_velocity": speed, "episode": episode + 1},
        )
    calm = ["-0.05 <= angle", "angle <= 0.05", "-0.1 <= angular_velocity", "angular_velocity <= 0.1"]
    start = every(*calm, episode == 0)
    return Instance.of(m, start=start, fail=some("0.785 <= angle", "angle <= -0.785"), goal=episode >= STEPS)


def follow_car(*, tau: Fraction = Fraction(2, 5)) -> Instance:
    """Return the car that follows another one driving at 28 m/s; hitting it is the failure.

    `accelerate` and `brake` change the speed by 1 m/s in a second, `keep` does not; the speed stays between 0 and 50.
    Start: 30 to 60 m behind, at 28 to 33 m/s, from where braking at once is always enough.

    Differs the authors' model is not public and the paper gives no numbers: speeds and start as in Bacci and Parker's
            cruise control, three labels, and the goal to drive 1000 steps. A car that hit the other does not drive on.
    """
    m = ModelBuilder("follow_car")
    m.note("description", "Follow a car that drives at constant speed without hitting it.")
    m.constant("timestep", tau, type="real")
    m.constant("lead_velocity", 28, type="real")
    episode = m.int("episode", 0, LONGEST, initial=0)
    m.real("gap", -30 * tau, 60 + 28 * tau * LONGEST, initial=60)
    m.real("velocity", 0, 50, initial=28)
    driving = every("gap > 0", episode + 1 <= LONGEST)
    moved = "gap + (lead_velocity - velocity) * timestep"
    for label, speed, allowed in (
        ("accelerate", "velocity + timestep", "velocity + timestep <= 50"),
        ("keep", "velocity", "true"),
        ("brake", "velocity - timestep", "0 <= velocity - timestep"),
    ):
        m.edge(label, guard=every(driving, allowed), to={"gap": moved, "velocity": speed, "episode": episode + 1})
    start = every("30 <= gap", "gap <= 60", "28 <= velocity", "velocity <= 33", episode == 0)
    return Instance.of(m, start=start, fail="gap <= 0", goal=every(episode >= STEPS, "gap > 0"))
