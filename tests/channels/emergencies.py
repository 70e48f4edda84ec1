"""The datasets and the seven channels of the emergency city (bad §6.1), for every test of channels."""

from tidewire.channels.schemas import Catalog, Column, ColumnType, Dataset


def columns(text: str) -> tuple[Column, ...]:
    """``id bigint, type string`` as columns."""
    pairs = (part.split() for part in text.split(","))
    return tuple(Column(name, ColumnType(kind)) for name, kind in pairs)


def emergencies() -> Catalog:
    """Reports come in; users have a place each; shelters and zones are loaded."""
    return Catalog(
        [
            Dataset(
                name="EmergencyReports",
                columns=columns("id bigint, type string, severity double, lat double, lon double, zone string"),
                is_feed=True,
            ),
            Dataset(
                name="UserLocations",
                columns=columns("user string, lat double, lon double"),
                is_feed=True,
                key=("user",),
                rows=100_000,
            ),
            Dataset(name="Shelters", columns=columns("name string, lat double, lon double"), rows=200),
            Dataset(name="Zones", columns=columns("name string, risk double, calm boolean"), key=("name",), rows=50),
        ]
    )


SEVEN = (
    """create channel of_type(type string) period 10s as
    select * from EmergencyReports r where r.type = :type""",
    """create channel in_area(lat double, lon double, km double) period 20s as
    select * from EmergencyReports r where within(r.lat, r.lon, :lat, :lon, :km * 1000)""",
    """create channel of_type_in_area(type string, lat double, lon double, km double) period 30s as
    select * from EmergencyReports r where r.type = :type and within(r.lat, r.lon, :lat, :lon, :km * 1000)""",
    """create channel near_me(me string) period 10s on new EmergencyReports as
    select r.* from EmergencyReports r join UserLocations u on u.user = :me
    where within(r.lat, r.lon, u.lat, u.lon, 2000)""",
    """create channel of_type_near_me(me string, type string) period 20s on new EmergencyReports as
    select r.* from EmergencyReports r join UserLocations u on u.user = :me
    where r.type = :type and within(r.lat, r.lon, u.lat, u.lon, 2000)""",
    """create channel near_me_with_shelter(me string) period 30s on new EmergencyReports as
    select r.id, r.type, min_by(s.name, distance_m(u.lat, u.lon, s.lat, s.lon)) as shelter
    from EmergencyReports r join UserLocations u on u.user = :me cross join Shelters s
    where within(r.lat, r.lon, u.lat, u.lon, 2000) group by r.id, r.type""",
    """create channel in_area_with_shelters(lat double, lon double, km double) period 30s as
    select r.id, r.type, s.name as shelter
    from EmergencyReports r left join Shelters s on within(s.lat, s.lon, r.lat, r.lon, 5000)
    where within(r.lat, r.lon, :lat, :lon, :km * 1000)""",
)
"""Reports of a type; in an area; of a type in an area; near me; of a type near me; near me with the nearest shelter; in
an area with its shelters."""
