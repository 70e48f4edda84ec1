"""What slices and their controller say to each other (esilbops §4.1). Every way between two of them keeps the order.

In the paper's words: ``Begin`` is START_SCALE, ``Part`` ADD_MATCHER_STATE, ``Ready`` CHANGE_READY, ``Switch``
CHANGE_MATCHER_READY, ``CountChange`` CHANGE_MATCHER_ON_EXIT_POINT, ``StateChange`` CHANGE_MATCHER, ``CountChanged``
EXIT_POINT_CHANGED, ``Flush`` EXIT_POINT_MATCHER_UPDATED, ``Over`` SCALE_END, ``ExitChange`` EXIT_POINT_SCALING.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidewire.elasticity.views import SliceId, View


class _Message(msgspec.Struct, frozen=True):
    """The base of all of them."""


# -- traffic -----------------------------------------------------------------------------------------------------------


class Change(_Message, frozen=True):
    """A subscription comes, changes or goes (``wanted`` None); so does the context of one (esilbops §1.2)."""

    subscription: int
    wanted: Any


class Batch(_Message, frozen=True):
    """Events that came to an access point, in order. It is matched by all matchers of one view."""

    access: SliceId
    number: int
    """Of this access point; it grows by one from batch to batch."""

    publishers: tuple[int, ...]
    """Whose events are in it: by bucket, each once. Of a publisher's bucket there are a few hundred at most."""

    events: Any
    epoch: int = 0
    """How often its access point has begun to send again after a loss."""


Wait = tuple[int, SliceId]
"""Results of these publishers came from that exit point until this view: theirs must be here first."""


class Partial(_Message, frozen=True):
    """What one matcher found for those events of a batch whose publishers this exit point is responsible for."""

    access: SliceId
    number: int
    matcher: SliceId
    publishers: tuple[int, ...]
    found: Any
    epoch: int = 0
    waits: tuple[Wait, ...] = ()
    """What must come first."""


class Result(_Message, frozen=True):
    """All that was found for a batch, put together: to a connection point."""

    access: SliceId
    number: int
    exit: SliceId
    publishers: tuple[int, ...]
    found: Any
    epoch: int = 0
    waits: tuple[Wait, ...] = ()


class Taken(_Message, frozen=True):
    """A connection point to an access point: what this exit point told of this batch has been handed over."""

    number: int
    exit: SliceId
    epoch: int
    """Of the result: one from before a loss may have been of other publishers."""


# -- another number of matchers ----------------------------------------------------------------------------------------


class Begin(_Message, frozen=True):
    """Controller to access points, these to matchers: this is the next view. No change follows before the switch."""

    view: View


class Part(_Message, frozen=True):
    """A matcher to another, or to itself: subscriptions that will be yours; there may be none."""

    view: View
    sender: SliceId
    subscriptions: Any


class Ready(_Message, frozen=True):
    """A matcher: I have all that will be mine."""

    number: int
    matcher: SliceId


class Switch(_Message, frozen=True):
    """Controller to access points: all matchers are ready."""

    number: int


class CountChange(_Message, frozen=True):
    """Access point to the matchers of the old view, these to exit points: what follows is answered by so many."""

    number: int
    access: SliceId
    matchers: int


class StateChange(_Message, frozen=True):
    """Access point to matchers of both views: what follows is for the next state."""

    number: int


class Swapped(_Message, frozen=True):
    """A matcher: the next state is the present one. The paper has no such word; without it the next change may begin
    before this one has reached all."""

    number: int
    matcher: SliceId


class CountChanged(_Message, frozen=True):
    """An exit point: I wait for the new number of answers from now on."""

    number: int
    exit: SliceId


class Flush(_Message, frozen=True):
    """Controller to access points: all exit points know. What was held may go."""

    number: int


class Flushed(_Message, frozen=True):
    """An access point: nothing is held any more."""

    number: int
    access: SliceId


class Over(_Message, frozen=True):
    """Controller to access points, these to matchers: that was it. Who is not in the view any more may go."""

    number: int


class Abort(_Message, frozen=True):
    """Controller to access points, these to matchers: of this view, and those before it, nothing comes."""

    number: int


# -- another number of exit points -------------------------------------------------------------------------------------


class ExitChange(_Message, frozen=True):
    """Controller to access points, these to matchers: what follows goes by the exit points of this view."""

    view: View


class PreEnd(_Message, frozen=True):
    """A matcher to the exit points of the old view: I have sent you all that came from there before the change."""

    number: int
    access: SliceId
    matcher: SliceId
    matchers: int
    """So many of them say it."""


class PreFlushed(_Message, frozen=True):
    """An exit point to connection points, and the controller: so have all matchers, and you have all of it."""

    number: int
    access: SliceId
    exit: SliceId


class Adopted(_Message, frozen=True):
    """A matcher: I use the new exit points."""

    number: int
    matcher: SliceId


# -- after a loss ------------------------------------------------------------------------------------------------------


class Report(_Message, frozen=True):
    """A controller that has begun anew, to all: say again what you have said about this view."""

    number: int


class Lost(_Message, frozen=True):
    """Controller to all: who was here is gone, and another has taken its place, if it is still needed.

    What was on its way from it or to it is lost, so every access point sends again what is not known to be through.
    """

    slice: SliceId
    epoch: int
    """Of the engine: how many have been lost."""


class Renewed(_Message, frozen=True):
    """An access point: I have sent all of it again."""

    epoch: int
    access: SliceId


class Refilled(_Message, frozen=True):
    """Access point to a matcher that has taken another's place: you have all subscriptions of our clients."""

    epoch: int


class Epoch(_Message, frozen=True):
    """Access point to matchers, these to exit points: all that is not through comes again, answered by so many."""

    epoch: int
    access: SliceId
    number: int
    """Of the view."""

    matchers: int


class Resent(_Message, frozen=True):
    """Access point to matchers, these to exit points, these to connection points: that was all of it."""

    epoch: int
    access: SliceId
    sender: SliceId
    """The slice that says so."""

    exits: tuple[SliceId, ...]
    """From whom it comes, in the end."""

    number: int
    """Of the view under which it was sent: nothing of an earlier one is still to come."""

    matchers: int
    """So many of them say it to each exit point."""


SliceMessage = (
    Change
    | Batch
    | Partial
    | Result
    | Taken
    | Begin
    | Part
    | Ready
    | Switch
    | CountChange
    | StateChange
    | Swapped
    | CountChanged
    | Flush
    | Flushed
    | Over
    | Abort
    | ExitChange
    | PreEnd
    | PreFlushed
    | Adopted
    | Report
    | Lost
    | Renewed
    | Refilled
    | Epoch
    | Resent
)


class Tell(_Message, frozen=True):
    """To be sent."""

    to: SliceId
    message: SliceMessage


class Refill(_Message, frozen=True):
    """To be done by the owner of an access point: send all subscriptions that this matcher is to hold, as changes."""

    to: SliceId
    view: View


Step = Tell | Refill
