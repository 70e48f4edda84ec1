"""Publish earthquakes, and hear of the strong ones near Japan."""

import asyncio
import sys

import tidewire

QUAKES = [
    {"class": "QUAKE", "magnitude": 4.1, "lat": 35.7, "lon": 139.7, "place": "Tokyo"},
    {"class": "QUAKE", "magnitude": 6.4, "lat": 38.3, "lon": 142.4, "place": "off Tohoku"},
    {"class": "QUAKE", "magnitude": 7.0, "lat": -33.4, "lon": -70.7, "place": "Santiago"},
]


async def main(address: str) -> None:
    async with (
        tidewire.connect(address) as wire,
        wire.subscribe("class = 'QUAKE' and magnitude >= 6 and within(lat, lon, 38, 142, 500 km)") as strong,
    ):
        for quake in QUAKES:
            await wire.publish(quake)
        event = await strong.get(timeout=5)
        print(f"{event['place']}: magnitude {event['magnitude']}, heard after {event.latency * 1000:.2f} ms")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7600"))
