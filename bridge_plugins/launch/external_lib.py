"""For ``actor_rollout_ref.model.external_lib`` of verl, which imports it on each rank: importing it loads the plugins."""

import bridge_plugins

bridge_plugins.load()
