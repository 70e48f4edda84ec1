"""How many slices does a matching engine have, and how does it get more or fewer without a pause? (esilbops §3, §4)

An engine is three layers of slices: *access points* take what clients say, *matchers* hold a part of the subscriptions
each, *exit points* put the matchers' answers together; results end at *connection points*. Everything here is pure:
each slice and the controller is a machine that hears messages and answers with what is to be done.

What flows are *batches* of events: a machine sees their numbers, never an event.
"""
