from tidewire import sync as sync
from tidewire.language import compile_filter as compile_filter
from tidewire.language import explain as explain
from tidewire.language import parse as parse
from tidewire.language import render as render
from tidewire.live.connect import Wire as Wire
from tidewire.live.connect import connect as connect
from tidewire.live.credentials import Credentials as Credentials
from tidewire.live.notification import Notification as Notification
from tidewire.live.subscription import Subscription as Subscription
from tidewire.matching.covering import Relation as Relation
from tidewire.matching.covering import relation as relation
from tidewire.matching.index import KernelMatcher as KernelMatcher
from tidewire.matching.poset import Poset as Poset
from tidewire.matching.protocol import Delivery as Delivery
from tidewire.matching.protocol import Matcher as Matcher
from tidewire.matching.scan import ScanMatcher as ScanMatcher
from tidewire.model.errors import TidewireError as TidewireError
from tidewire.model.events import Envelope as Envelope
from tidewire.model.events import Event as Event
from tidewire.model.events import make_event as make_event
from tidewire.model.filters import Filter as Filter
from tidewire.model.filters import decode_filter as decode_filter
from tidewire.model.filters import encode_filter as encode_filter
from tidewire.model.values import Timestamp as Timestamp

__version__: str
