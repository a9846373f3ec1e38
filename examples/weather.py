"""A weather server: alerts and forecasts for places in the United States.

    python -m mcplite call examples/weather.py get_forecast latitude:=38.58 longitude:=-121.49

It asks api.weather.gov; the environment variable WEATHER_API names another service with the same answers.
"""
import os
from typing import Annotated, Any, Dict

import requests

import mcplite

API = os.environ.get("WEATHER_API", "https://api.weather.gov")

mcp = mcplite.Server("weather", instructions="Weather in the United States, from the National Weather Service.")


def fetch(url: str) -> Dict[str, Any]:
    """Return the JSON at *url*; what goes wrong becomes a sentence for the model."""
    try:
        answer = requests.get(url, headers={"User-Agent": "mcplite-example", "Accept": "application/geo+json"},
                              timeout=30)
        answer.raise_for_status()
        return answer.json()
    except requests.RequestException as error:
        raise mcplite.ToolError(f"The weather service did not answer: {error}")


@mcp.tool(annotations={"readOnlyHint": True})
def get_alerts(state: Annotated[str, "Two-letter code, such as CA", {"minLength": 2, "maxLength": 2}]) -> str:
    """Get the active weather alerts of a state."""
    alerts = [feature["properties"] for feature in fetch(f"{API}/alerts/active/area/{state}")["features"]]
    return "\n---\n".join(
        f"{alert['event']} ({alert['severity']}), {alert['areaDesc']}\n{alert['description']}" for alert in alerts
    ) or f"No active alerts for {state}."


@mcp.tool(annotations={"readOnlyHint": True})
def get_forecast(
    latitude: Annotated[float, "Degrees north", {"minimum": -90, "maximum": 90}],
    longitude: Annotated[float, "Degrees east", {"minimum": -180, "maximum": 180}],
) -> str:
    """Get the forecast for a place."""
    place = fetch(f"{API}/points/{latitude},{longitude}")
    periods = fetch(place["properties"]["forecast"])["properties"]["periods"]
    return "\n".join(
        f"{period['name']}: {period['temperature']} °{period['temperatureUnit']}, wind {period['windSpeed']}"
        f" {period['windDirection']}. {period['detailedForecast']}" for period in periods[:5]
    )


if __name__ == "__main__":
    mcp.run()
